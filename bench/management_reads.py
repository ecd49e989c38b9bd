"""Reading the management API and metrics beside a client that publishes, with 10,000 queues and 1,000 connections.

The length of steps is processor time of the loop's thread, measured inside the broker as `bench/rows/turns.py` does.
"""

from __future__ import annotations

import http.client
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.load import generator, loadgen
from bench.load.generator import Load
from bench.load.measured_broker import Target, Wanted, own_broker, report, target_of
from bench.rows.turns import longest, watched
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import basic, web_address
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import Client
from harness.process_figures import allow_open_files, cpu_seconds

QUEUES, CONNECTIONS = 10_000, 1000
RATE = 1000
SECONDS = 4.0
ROUNDS = 3
ASKED = 20
SAMPLED_SECONDS = 11.0
"""Seconds without a request: two rounds of samples."""
ANSWERS, SAMPLES = "_serve", "run"
"""The tasks of HTTP connections, and of what samples (the engine's has the same name)."""
READS = (
    ("http", "/api/overview"),
    ("http", "/api/overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"),
    ("http", "/api/nodes"),
    ("http", "/api/queues?page=1&page_size=100"),
    ("http", "/api/queues?page=1&page_size=100&columns=name,messages"),
    ("http", "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true"),
    ("http", "/api/queues?page=1&page_size=100&sort=message_stats.publish&sort_reverse=true"),
    ("http", "/api/queues?page=1&page_size=100&name=7$&use_regex=true"),
    ("http", "/api/queues"),
    ("http", "/api/queues?disable_stats=true&enable_queue_totals=true"),
    ("http", "/api/bindings"),
    ("http", "/api/definitions"),
    ("http", "/api/connections?page=1&page_size=100"),
    ("http", "/api/connections"),
    ("http", "/api/channels?page=1&page_size=100"),
    ("metrics", "/metrics"),
    ("metrics", "/metrics/per-object"),
    ("metrics", "/metrics/detailed?family=queue_coarse_metrics"),
)
"""Listener and path of each read."""


def management(wanted: Wanted) -> None:
    """Milliseconds of each answer, of the CPU time and the longest step of it; confirms of others with and without it.

    Each is asked for again and again, without a pause, which is more than any page or scraper does.
    """
    allow_open_files()
    reads, rounds = (READS, ROUNDS) if wanted.part >= 0.1 else ((READS[0], READS[-1]), 1)
    with tempfile.TemporaryDirectory(prefix="leveret-turns-") as directory, _broker(wanted, Path(directory)) as broker:
        steps = _Steps(target_of(broker), Path(directory))
        for scheme, path in reads:
            _answers_alone(broker, steps, scheme, path)
        steps.figures(SAMPLES)
        time.sleep(wanted.seconds(SAMPLED_SECONDS))
        report("samples", **steps.figures(SAMPLES))
        seconds = wanted.seconds(SECONDS)
        for scheme, path in reads:
            pairs = [_beside(broker, scheme, path, seconds) for _ in range(rounds)]
            alone, beside = (statistics.median(found) for found in zip(*pairs, strict=True))
            times = statistics.median(with_it / max(0.001, without) for without, with_it in pairs)
            report(path, undisturbed_p99_ms=round(alone, 2), confirm_p99_ms=round(beside, 2), times=round(times, 2))


def _answers_alone(broker: BrokerProcess, steps: _Steps, scheme: str, path: str) -> None:
    """Ask some times while nothing else happens. On a machine that is busy the CPU time says more than the time."""
    reader, cpu = _Reader(web_address(broker, scheme), path), cpu_seconds(broker.pid)
    steps.figures(ANSWERS)
    for _ in range(ASKED):
        reader.ask()
    cpu = cpu_seconds(broker.pid) - cpu
    report(
        path,
        median_ms=round(1000 * statistics.median(reader.seconds), 1),
        highest_ms=round(1000 * max(reader.seconds), 1),
        cpu_ms=round(1000 * cpu / ASKED, 1),
        kib=reader.size >> 10,
        **steps.figures(ANSWERS),
    )


def _beside(broker: BrokerProcess, scheme: str, path: str, seconds: float) -> tuple[float, float]:
    """The p99 of others' confirms, undisturbed and then while it is asked for again and again."""
    target = target_of(broker)
    alone = _others(target, seconds).figures()["confirm_ms"]["p99"]
    with _Reader(web_address(broker, scheme), path) as reader:
        cpu = cpu_seconds(target.pid)
        figures = _others(target, seconds).figures()
        cpu = cpu_seconds(target.pid) - cpu
    report(path, answers=len(reader.seconds), cores=round(cpu / seconds, 2), confirm_ms=figures["confirm_ms"])
    return alone, figures["confirm_ms"]["p99"]


def _others(target: Target, seconds: float) -> Load:
    return Load(target, label="others", key="bench.others", queue="bench.others", rate=RATE, seconds=seconds)


class _Steps:
    """The steps that a broker takes, with `watched` in its environment."""

    def __init__(self, target: Target, directory: Path) -> None:
        self._target = target
        self._path = _turns(directory)

    def figures(self, task: str) -> dict[str, float | int]:
        """The longest step since the last call of tasks of this name, and how many took a millisecond or more."""
        most, long = longest(self._target, self._path)["tasks"].get(task, (0.0, 0))
        return {"longest_ms": most, "long_steps": long}


def _turns(directory: Path) -> Path:
    return directory / "turns"


@contextmanager
def _broker(wanted: Wanted, directory: Path) -> Iterator[BrokerProcess]:
    """A broker that has the queues, with a message each, and the connections, each with a consumer of one queue."""
    with own_broker(serves_http=True, **watched(_turns(directory))) as broker:
        target = target_of(broker)
        client = generator.connect(target)
        generator.declare_fresh(client, "bench.others")
        for number in range(wanted.sized(QUEUES)):
            client.send(queue_declare(f"bench.management.{number}", no_wait=True))
            client.publish(b"one", key=f"bench.management.{number}")
        generator.declare(client, "bench.others")
        clients = [_consumer(target, number) for number in range(wanted.sized(CONNECTIONS))]
        yield broker
        for each in (*clients, client):
            each.close()


def _consumer(target: Target, number: int) -> Client:
    client = loadgen.connect(target.address)
    client.ask(consume(f"bench.management.{number}"))
    return client


class _Reader:
    """A thread that asks for one thing, one request after the other on one connection."""

    def __init__(self, address: tuple[str, int], path: str) -> None:
        self.seconds: list[float] = []
        self.size = 0
        self._path = path
        self._connection = http.client.HTTPConnection(*address)
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._over or not self.seconds:
            self.ask()

    def ask(self) -> None:
        """Ask once, and note how long the answer took."""
        began = time.monotonic()
        self._connection.request("GET", self._path, headers=basic())
        reply = self._connection.getresponse()
        self.size = len(reply.read())
        assert reply.status == 200, f"{self._path}: {reply.status}"
        self.seconds.append(time.monotonic() - began)
