"""A Celery application. Start a worker with `celery --app tasks worker`, then run `python tasks.py`."""

import os

from celery import Celery

app = Celery("tasks", broker=os.environ.get("AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"), backend="rpc://")
app.conf.task_acks_late = True  # a task that dies with its worker comes again
app.conf.broker_connection_retry_on_startup = True


@app.task(bind=True, max_retries=3)
def divide(task, number: int, by: int) -> float:
    """Divide, and try again after a moment when that cannot be done."""
    try:
        return number / by
    except ZeroDivisionError as error:
        raise task.retry(exc=error, countdown=0.1, args=(number, by + 1)) from error


if __name__ == "__main__":
    print(divide.delay(84, 2).get(timeout=30))
    print(divide.delay(42, 0).get(timeout=30))
