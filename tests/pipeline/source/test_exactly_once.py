"""The event log into Spark's file sink, each event exactly once, while drivers and the broker are killed.

A process collects a log that grows, from its directory and by HTTP at once. It is stopped, looked at and let go on
until a batch is at one of the places where exactly once could go wrong, and is killed there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_address
from harness.brokers.recording_broker import events_of
from harness.waiting import eventually
from leveret_spark.events.event_log_reader import Event
from tests.pipeline.conftest import ROOT
from tests.pipeline.inputs.collecting_job import SEGMENTS_AT_ONCE, Collection
from tests.pipeline.inputs.queue_client import Desk, desk_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    # PySpark leaves the sockets of its results to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

Collections = dict[str, Collection]
QUERY_SECONDS = 180
QUEUE = "work"
SETTINGS = """
[http]
listen = ["127.0.0.1:0"]
[events]
enabled = true
segment_bytes = 1
"""


class Kill(NamedTuple):
    """What of a batch is there when the process is killed, and what is not."""

    what: str
    of: str
    seen: Callable[[Collection, int], bool]
    """By the collection, and its strays when the process began."""


KILLS = (
    Kill("planned, and no file yet", "web", lambda of, strays: of.planned > of.listed and of.strays == strays),
    Kill("files, and no list of them", "directory", lambda of, strays: of.planned > of.listed and of.strays > strays),
    Kill("files that count, and no commit", "directory", lambda of, strays: of.listed > of.committed),
)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker whose every tenth of a second is a segment, which it serves by HTTP."""
    config = tmp_path / "config.toml"
    config.write_text(SETTINGS)
    process = BrokerProcess(tmp_path / "data", "--config", str(config))
    process.start()
    host, port = web_address(process)
    config.write_text(SETTINGS.replace(f"{host}:0", f"{host}:{port}"))  # the same one after each death
    yield process
    process.kill()


class Driver:
    """A process with all collections, and its Java."""

    def __init__(self, scratch: Path, collections: Collections) -> None:
        what = [part for each in collections.values() for part in each]
        self._told = (scratch / "told").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.inputs.collecting_job", *what],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)},
            stdout=self._told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def check(self) -> None:
        """It runs, or we want to know why not."""
        if self._process.poll() is not None:
            self._told.seek(0)
            raise AssertionError(f"the driver has ended\n{self._told.read()}")

    def hold(self) -> None:
        """Stop it: when this returns nothing of it moves."""
        self._signal(signal.SIGSTOP)
        own = psutil.Process(self._process.pid)
        ours = [each for each in (own, *own.children()) if os.getpgid(each.pid) == own.pid]
        eventually(lambda: all(each.status() == psutil.STATUS_STOPPED for each in ours), "everything to stand")

    def let_go(self) -> None:
        """Have it go on."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """Have it gone."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._told.close()

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)


@contextmanager
def driver(scratch: Path, collections: Collections) -> Iterator[Driver]:
    """A process with all of them, which is killed at the end."""
    started = Driver(scratch, collections)
    try:
        yield started
    finally:
        started.kill()


def work(desk: Desk, broker: BrokerProcess, collections: Collections) -> None:
    """Have the log grow, a little ahead of those who collect it, however slow they are."""
    segments = len(list((broker.data_dir / "events").glob("*.events")))
    if segments < SEGMENTS_AT_ONCE * (3 + min(each.planned for each in collections.values())):
        desk.channel.basic_publish("", QUEUE, b"")
        desk.channel.basic_get(QUEUE, auto_ack=True)


def killed(kill: Kill, broker: BrokerProcess, scratch: Path, collections: Collections) -> None:
    """Collect for a while, over a broker's death; then die."""
    of = collections[kill.of]
    begun, strays = of.committed, of.strays
    with driver(scratch, collections) as process:

        def looks(seen: Callable[[], bool], desk: Desk) -> bool:
            process.check()
            work(desk, broker, collections)
            return seen()

        def caught() -> bool:
            if not kill.seen(of, strays):
                return False
            process.hold()
            if not kill.seen(of, strays):
                process.let_go()
            return kill.seen(of, strays)

        with desk_at(broker.address) as desk:
            eventually(lambda: looks(lambda: of.committed > begun, desk), "a batch", seconds=QUERY_SECONDS)
        broker.kill_and_restart()
        with desk_at(broker.address) as desk:
            eventually(lambda: looks(caught, desk), kill.what, seconds=QUERY_SECONDS)
    assert kill.seen(of, strays), "it did not get further"


def at_rest(broker: BrokerProcess) -> list[tuple[str, int, int]]:
    """All events of all boots, when the broker has been killed once more and has nothing more to tell."""
    broker.kill_and_restart()
    boots = len(KILLS) + 2

    def told() -> list[Event]:
        events = events_of(broker)
        return events if (events[-1].boot, events[-1].kind) == (boots, "snapshot") else []

    events = eventually(told, "the record of the last start")
    heard = {event.boot for event in events}
    assert {1, boots} <= heard, heard  # who is killed in the first tenth of a second has logged nothing
    return [(event.node, event.boot, event.seq) for event in events]


def test_each_event_comes_once_whatever_is_killed(
    spark: SparkSession, recording: BrokerProcess, tmp_path: Path
) -> None:
    host, port = web_address(recording)
    sources = {"directory": str(recording.data_dir / "events"), "web": f"http://{host}:{port}"}
    collections = {
        name: Collection(source, str(tmp_path / name), str(tmp_path / f"{name}.checkpoint"))
        for name, source in sources.items()
    }
    (tmp_path / "scratch").mkdir()
    with desk_at(recording.address) as desk:
        desk.channel.queue_declare(QUEUE, durable=True)
    for kill in KILLS:
        killed(kill, recording, tmp_path / "scratch", collections)
    expected = at_rest(recording)
    for each in collections.values():
        each.finish(spark)
        rows = spark.read.parquet(each.out).select("node", "boot", "seq").collect()
        assert sorted(map(tuple, rows)) == expected
