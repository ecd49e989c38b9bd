"""A Celery project: tasks that are acknowledged when they are done, calls that are confirmed, and retries hours later.

A task that is tried again waits in the broker, in the queue `later`, which has no consumers and gives it back after an
hour. With `countdown` it would wait in the worker, unacknowledged, until the broker's `consumer_timeout`.
"""

import os

from celery import Celery
from kombu import Queue

HOUR = 3600
BACK = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "celery"}

app = Celery("shop", broker=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"), backend="rpc://")
app.conf.update(
    task_queues=[Queue("celery"), Queue("later", message_ttl=HOUR, queue_arguments=BACK)],
    task_acks_late=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
)
charged: list[int] = []


@app.task
def charge(order: int) -> None:
    """Charge an order, once: a task runs again when its acknowledgement was lost."""
    if order not in charged:
        charged.append(order)


@app.task
def charges(order: int) -> int:
    """Return the number of charges of an order."""
    return charged.count(order)


@app.task(bind=True, max_retries=24)
def ship(task, order: int) -> str:
    """Ship an order that is charged; an hour later, if it is not."""
    if order not in charged:
        raise task.retry(queue="later", countdown=0)
    return f"{order} is on its way"
