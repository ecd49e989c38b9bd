"""Segments as a table and as a stream: every event once, also where a batch has to be done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from broker.admin import protocol
from harness.brokers.broker_process import BrokerProcess
from harness.brokers.http_broker import web_address, web_broker
from leveret_spark.option_errors import OptionError
from storage.events.event_log_writer import EventLog, EventLogSettings, Part
from tests.pipeline.inputs.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

STOP = 2
SECRET = "hunter2hunter2"
SMALL = EventLogSettings(1, 3600.0, 0)


def write(directory: Path, boot: int, *sizes: int) -> None:
    """A boot's log: a segment for each number, with so many events."""
    log, _ = EventLog.open(directory, "node", boot, SMALL)
    first = 1
    for size in sizes:
        log.append(Part([(STOP, 1_000_000 * number, 1) for number in range(first, first + size)], first, size))
        first += size
    log.close()


def test_options_are_checked(tmp_path: Path) -> None:
    from leveret_spark import LeveretEventsDataSource

    with pytest.raises(OptionError, match="option path is missing"):
        LeveretEventsDataSource({})
    with pytest.raises(OptionError, match=r"unknown option 'pth'; known are path, url, user, .*, maxSegmentsPerBatch"):
        LeveretEventsDataSource({"pth": "x"})


@pytest.mark.slow
def test_a_directory_is_a_table(spark: SparkSession, tmp_path: Path) -> None:
    assert spark.read.format("leveret-events").load(str(tmp_path)).count() == 0
    write(tmp_path, 1, 2, 1)
    write(tmp_path, 2, 3)
    (tmp_path / "_tmp.node-00000003-0000000000000001").write_bytes(b"half")
    rows = spark.read.format("leveret-events").load(str(tmp_path)).orderBy("boot", "seq").collect()
    assert [(row.node, row.boot, row.seq, row.kind) for row in rows] == [
        ("node", boot, seq, "stop") for boot in (1, 2) for seq in (1, 2, 3)
    ]
    assert rows[1].ts.timestamp() == 2.0


@pytest.mark.slow
def test_streams_add_nothing_to_what_all_of_a_source_share(spark: SparkSession, tmp_path: Path) -> None:
    """Two that do at the same moment leave a map of a wrong size, which no task can be given. That is a rare race."""

    def shared() -> set[str]:
        sources = spark._jsparkSession.sessionState().dataSourceManager()
        return set(sources.lookupDataSource("leveret-events").dataSourceCls().envVars())

    before = shared()
    stream = spark.readStream.format("leveret-events").load(str(tmp_path / "events"))
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    write(tmp_path / "events", 1, 1)
    run_to_end(query.trigger(availableNow=True))
    assert shared() == before


@pytest.mark.slow
def test_a_stream_brings_each_event_once_into_files(spark: SparkSession, tmp_path: Path) -> None:
    events, out, checkpoint = tmp_path / "events", tmp_path / "out", tmp_path / "checkpoint"

    def run() -> StreamingQuery:
        stream = spark.readStream.format("leveret-events").option("maxSegmentsPerBatch", 2).load(str(events))
        query = stream.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        return run_to_end(query.trigger(availableNow=True), str(out))

    def numbers() -> list[tuple[Any, ...]]:
        return sorted((row.boot, row.seq) for row in spark.read.parquet(str(out)).collect())

    write(events, 1, 2, 1, 4, 2, 1)
    assert len([progress for progress in run().recentProgress if progress.numInputRows]) == 3
    assert numbers() == [(1, seq) for seq in range(1, 11)]
    # The last batch was written, and its driver killed before it could say so.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    write(events, 2, 3)
    run()
    assert numbers() == [(1, seq) for seq in range(1, 11)] + [(2, 1), (2, 2), (2, 3)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that serves what lies in `events`, and records nothing itself."""
    process = web_broker(tmp_path)
    process.start()
    user = {"name": "reader", "password": SECRET, "tags": ["monitoring"]}
    protocol.ask(process.data_dir, "add_user", user, 10)
    yield process
    process.kill()


def url(process: BrokerProcess) -> str:
    host, port = web_address(process)
    return f"http://{host}:{port}"


@pytest.mark.slow
def test_by_http_each_event_comes_once_over_restarts_and_repeated_batches(
    spark: SparkSession, served: BrokerProcess, tmp_path: Path
) -> None:
    events, out, checkpoint = tmp_path / "events", tmp_path / "out", tmp_path / "checkpoint"
    from pyspark.errors import PySparkException

    access = {"user": "reader", "password": SECRET}

    def run() -> None:
        source = spark.readStream.format("leveret-events").options(maxSegmentsPerBatch="2", **access)
        query = source.load(url(served)).writeStream.format("parquet")
        run_to_end(query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True), str(out))

    def numbers() -> list[tuple[Any, ...]]:
        return sorted((row.node, row.boot, row.seq) for row in spark.read.parquet(str(out)).collect())

    write(events, 1, 2, 1, 4)
    run()
    expected = [("node", 1, seq) for seq in range(1, 8)]
    assert numbers() == expected
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    served.kill_and_restart()
    write(events, 2, 3)
    run()
    assert numbers() == expected + [("node", 2, seq) for seq in (1, 2, 3)]
    table = spark.read.format("leveret-events").options(url=url(served), **access).load()
    assert table.count() == 10
    assert SECRET not in table._jdf.queryExecution().toString()
    refused = spark.read.format("leveret-events").options(url=url(served), user="reader", password=f"not {SECRET}")
    with pytest.raises(PySparkException) as raised:
        refused.load().count()
    assert "401 Login failed" in str(raised.value)
    assert SECRET not in str(raised.value)
