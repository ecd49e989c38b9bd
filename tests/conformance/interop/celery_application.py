"""A small Celery application: the worker of test_celery runs it in a process of its own, the test calls its tasks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import celery

BROKER = "CELERY_TEST_BROKER"
RECORD = "CELERY_TEST_RECORD"
PROCESSES = 2


def application(url: str) -> celery.Celery:
    """The application on a broker: late acknowledgements, confirmed publishes, results by messages."""
    app = celery.Celery("interop", broker=url, backend="rpc://", set_as_current=False)
    app.conf.update(
        broker_transport_options={"confirm_publish": True},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_acks_late=True,
        task_publish_retry_policy={"max_retries": 200, "interval_start": 0, "interval_step": 0.1, "interval_max": 0.2},
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    app.task(name="add")(add)
    app.task(name="record")(record)
    app.task(name="fail")(fail)
    app.task(name="third_time_lucky", bind=True, max_retries=5)(third_time_lucky)
    return app


def add(x: int, y: int) -> int:
    return x + y


def record(number: int) -> None:
    """Note that this ran: one line, in one write, in a file that all processes share."""
    with Path(os.environ[RECORD]).open("a") as file:
        file.write(f"{number}\n")


def fail() -> None:
    raise ValueError("on purpose")


def third_time_lucky(self: Any) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return int(self.request.retries)


if BROKER in os.environ:
    app = application(os.environ[BROKER])
