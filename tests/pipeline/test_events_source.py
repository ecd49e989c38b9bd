"""Segments as a table and as a stream: every event once, also where a batch has to be done again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from leveret_spark.errors import OptionError
from storage.event_log import EventLog, EventLogSettings, Part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

STOP = 2
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
    with pytest.raises(OptionError, match="unknown option 'pth'; known are path, maxSegmentsPerBatch"):
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
def test_a_stream_brings_each_event_once_into_files(spark: SparkSession, tmp_path: Path) -> None:
    events, out, checkpoint = tmp_path / "events", tmp_path / "out", tmp_path / "checkpoint"

    def run() -> StreamingQuery:
        stream = spark.readStream.format("leveret-events").option("maxSegmentsPerBatch", 2).load(str(events))
        query = stream.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        started = query.trigger(availableNow=True).start(str(out))
        assert started.awaitTermination(120)
        return started

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
