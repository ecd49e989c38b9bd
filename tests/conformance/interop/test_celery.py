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
from tests.conformance.interop.celery_application import BROKER, PROCESSES, RECORD, application

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
        """True if at least `count` tasks have left their mark."""
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
    """rpc:// results: one exclusive reply queue per client. A retry is a new message with a header that counts."""
    results = [setup.app.tasks["add"].delay(number, 1) for number in range(50)]
    assert [result.get(timeout=20) for result in results] == [number + 1 for number in range(50)]
    failed = setup.app.tasks["fail"].delay()
    with pytest.raises(ValueError, match="on purpose"):
        failed.get(timeout=20)
    assert setup.app.tasks["third_time_lucky"].delay().get(timeout=20) == 2


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
