"""Waits of application tests for their broker: `python -m bench.application_tests`.

Printed are the median, shortest and longest of several times, in milliseconds, and how long a suite of 100 tests takes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pika

from harness.project import ROOT
from leveret.testing import Broker

QUEUES, MESSAGES, SAVED = 10, 100, 10_000
SUITE = """
import pika, pytest

@pytest.mark.parametrize("number", range(100))
def test_a_message(leveret_connection, number):
    channel = leveret_connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("jobs", durable=True)
    channel.basic_publish("", "jobs", b"%d" % number, pika.BasicProperties(delivery_mode=2))
    method, _, body = channel.basic_get("jobs")
    assert (body, method.message_count) == (b"%d" % number, 0)
    channel.basic_ack(method.delivery_tag)
"""


def fill(broker: Broker, messages: int = MESSAGES) -> None:
    """Leave durable queues with `messages` persistent messages in each, as a test may."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for number in range(QUEUES):
            channel.queue_declare(f"q{number}", durable=True)
            for _ in range(messages):
                channel.basic_publish("", f"q{number}", bytes(100), pika.BasicProperties(delivery_mode=2))
    broker.wait_until_idle()


def measured(what: str, count: int, step: Callable[[], object], before: Callable[[], None] = lambda: None) -> None:
    """Print how long a step takes, each time after another that does not count."""
    taken = []
    for _ in range(count):
        before()
        began = time.perf_counter()
        step()
        taken.append((time.perf_counter() - began) * 1000)
    found = f"median {statistics.median(taken):.1f} ms, shortest {min(taken):.1f} ms, longest {max(taken):.1f} ms"
    print(f"{what}: {found}, {count} times", flush=True)


def measure_snapshots() -> None:
    """One of many messages, saved and restored."""
    with Broker() as broker:
        fill(broker, SAVED // QUEUES)
        measured(f"a snapshot of {SAVED:,} messages is saved", 20, lambda: broker.save_snapshot("filled"))
        measured("the same is restored", 20, lambda: broker.restore_snapshot("filled"))


def measure_power_failures() -> None:
    """A power failure, and the start after it."""
    with Broker(power_failures=True) as broker:

        def fail_and_start() -> None:
            broker.power_failure()
            broker.start()

        measured("power failure and start", 10, fail_and_start, lambda: fill(broker))


def measure_suite(options: list[str]) -> None:
    """A hundred tests in a pytest of their own."""
    with tempfile.TemporaryDirectory() as directory:
        (Path(directory) / "test_suite.py").write_text(SUITE)
        (Path(directory) / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-ppytest_leveret.plugin", *options]
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
        began = time.perf_counter()
        subprocess.run(command, cwd=directory, env=environment, check=True, stdout=subprocess.DEVNULL)
        print(f"a suite of 100 tests {' '.join(options)}: {time.perf_counter() - began:.1f} s", flush=True)


def main() -> None:
    """Measure everything."""
    with Broker() as broker:
        measured("an empty broker for a test, after nothing", 100, broker.fresh)
        measured(f"the same, after {QUEUES * MESSAGES:,} messages", 20, broker.fresh, lambda: fill(broker))

        def kill_and_start() -> None:
            broker.kill()
            broker.start()

        measured("kill and start", 20, kill_and_start, lambda: fill(broker))
    with ExitStack() as started:
        measured("a broker of its own", 20, lambda: started.enter_context(Broker()), started.close)
    measure_snapshots()
    measure_power_failures()
    measure_suite([])


if __name__ == "__main__":
    main()
