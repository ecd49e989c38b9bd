"""A Celery project: tasks that are acknowledged when they are done, and calls that are confirmed."""

import os

from celery import Celery

app = Celery("shop", broker=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"), backend="rpc://")
app.conf.update(
    task_acks_late=True,
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
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
    """How often an order was charged."""
    return charged.count(order)


@app.task(bind=True, max_retries=20)
def ship(task, order: int) -> str:
    """Ship an order that is charged; later, if it is not."""
    if order not in charged:
        raise task.retry(countdown=0.05)
    return f"{order} is on its way"
