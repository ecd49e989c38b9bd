"""A Celery worker in a process of its own: tasks, results, retries, and a broker that dies under it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import celery
import pytest
from kombu import pools

from harness.brokers.broker_process import BrokerProcess
from harness.project import ROOT
from harness.waiting import eventually
from tests.conformance.interop.celery_application import (
    BROKER,
    PREFETCH_MULTIPLIER,
    PRIORITY_MAX,
    PROCESSES,
    RECORD,
    application,
)

pytestmark = pytest.mark.slow

TASKS = 200
AHEAD = 60
WORKER_SECONDS = 30


class Setup(NamedTuple):
    """A broker, a worker that runs, the application to call it with, and the file in which its tasks leave a mark."""

    broker: BrokerProcess
    app: celery.Celery
    worker: subprocess.Popen[bytes]
    record: Path
    log: Path

    def recorded(self) -> list[int]:
        return [int(line) for line in self.record.read_text().splitlines()]

    def ran(self, count: int) -> bool:
        """So many tasks have left their mark, or more."""
        return len(self.recorded()) >= count


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    directory = tmp_path_factory.mktemp("celery")
    broker = BrokerProcess(directory / "data")
    broker.start()
    url = f"amqp://guest:guest@{broker.address[0]}:{broker.address[1]}//"
    record, log = directory / "record", directory / "worker.log"
    record.touch()
    environment = {**os.environ, BROKER: url, RECORD: str(record)}
    command = [sys.executable, "-m", "celery", "-A", "tests.conformance.interop.celery_application", "worker"]
    options = ["--concurrency", str(PROCESSES), "--loglevel", "INFO", "--hostname", "interop@localhost"]
    with log.open("wb") as output:
        worker = subprocess.Popen([*command, *options], cwd=ROOT, env=environment, stdout=output, stderr=output)
    app = application(url)
    try:
        eventually(lambda: app.control.ping(timeout=0.3), "the worker to answer", seconds=WORKER_SECONDS)
        yield Setup(broker, app, worker, record, log)
        worker.terminate()
        assert worker.wait(WORKER_SECONDS) == 0, log.read_text()
    finally:
        worker.kill()
        worker.wait()
        app.backend.result_consumer.stop()  # its connection is nobody else's to close
        app.close()
        pools.reset()
        broker.kill()


def test_results_come_back(setup: Setup) -> None:
    """rpc:// results: one exclusive reply queue per client."""
    results = [setup.app.tasks["add"].delay(number, 1) for number in range(50)]
    assert [result.get(timeout=20) for result in results] == [number + 1 for number in range(50)]
    failed = setup.app.tasks["fail"].delay()
    with pytest.raises(ValueError, match="on purpose"):
        failed.get(timeout=20)


def test_a_task_that_retries(setup: Setup) -> None:
    """A retry is a new message with a header that counts."""
    assert setup.app.tasks["third_time_lucky"].delay().get(timeout=20) == 2


def test_a_task_for_later_waits_in_the_worker(setup: Setup) -> None:
    """With a countdown the worker holds the message, unacknowledged, over its usual prefetch."""
    task = setup.app.tasks["add"].apply_async((20, 3), countdown=2)
    inspect = setup.app.control.inspect(["interop@localhost"], timeout=5)
    (scheduled,) = eventually(lambda: inspect.scheduled()["interop@localhost"], "the task to be scheduled")
    assert scheduled["request"]["id"] == task.id
    assert task.get(timeout=20) == 23


def test_the_worker_holds_no_more_than_its_prefetch(setup: Setup, tmp_path: Path) -> None:
    """Celery asks RabbitMQ 3 for a limit of the whole channel; the rest waits in the queue."""
    gate = tmp_path / "gate"
    limit = PROCESSES * PREFETCH_MULTIPLIER
    tasks = [setup.app.tasks["hold"].delay(str(gate)) for _ in range(limit + 12)]
    with setup.app.connection_for_read() as connection:
        channel = connection.default_channel

        def waiting() -> int:
            return int(channel.queue_declare("celery", passive=True).message_count)

        eventually(lambda: waiting() == 12, f"{limit} tasks to be held and 12 to wait")
        inspect = setup.app.control.inspect(["interop@localhost"], timeout=5)
        assert inspect.stats()["interop@localhost"]["prefetch_count"] == limit
        assert waiting() == 12
    gate.touch()
    assert [task.get(timeout=20) for task in tasks] == ["held"] * len(tasks)


def test_urgent_tasks_come_before_others(setup: Setup, tmp_path: Path) -> None:
    """The worker is busy; what comes meanwhile waits in the queue, the urgent tasks that came last in front."""
    gate, count = tmp_path / "gate", 20
    limit = PROCESSES * PREFETCH_MULTIPLIER
    held = [setup.app.tasks["hold"].delay(str(gate)) for _ in range(limit)]
    with setup.app.connection_for_read() as connection:
        channel = connection.default_channel
        for number in range(2 * count):
            setup.app.tasks["record"].apply_async((number,), priority=PRIORITY_MAX if number >= count else 1)
        eventually(lambda: channel.queue_declare("celery", passive=True).message_count == 2 * count, "tasks to wait")
    gate.touch()
    assert [task.get(timeout=20) for task in held] == ["held"] * limit
    eventually(partial(setup.ran, 2 * count), "every task to have run")
    recorded = setup.recorded()
    setup.record.write_text("")
    # Which of two processes writes first is their affair: the tasks around the middle may change places.
    assert min(recorded[: count - PROCESSES]) >= count
    assert max(recorded[count + PROCESSES :]) < count


def test_a_broker_killed_under_two_hundred_tasks(setup: Setup) -> None:
    """Every task whose publish was confirmed runs at least once; worker and publisher reconnect by themselves."""
    accepted: list[int] = []

    def publish() -> None:
        for number in range(TASKS):
            # Never far ahead of the worker: so the broker dies under publishes as well as under deliveries.
            eventually(partial(setup.ran, number - AHEAD), "the worker to keep up", seconds=60)
            setup.app.tasks["record"].apply_async((number,))
            accepted.append(number)

    publisher = threading.Thread(target=publish)
    publisher.start()
    eventually(partial(setup.ran, TASKS // 4), "a quarter of the tasks to have run")
    setup.broker.kill()
    assert len(accepted) < TASKS
    setup.broker.start()
    publisher.join(60)
    assert accepted == list(range(TASKS))
    eventually(lambda: set(setup.recorded()) >= set(accepted), "every accepted task to have run", seconds=60)
    assert setup.worker.poll() is None
    assert setup.app.tasks["add"].delay(1, 2).get(timeout=20) == 3
