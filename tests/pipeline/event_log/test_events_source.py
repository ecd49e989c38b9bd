"""Segments as a table and as a stream: every event once, also where a batch has to be done again."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from harness.brokers.http_broker import web_address, web_broker, write_segments
from leveret_events.segment_names import SegmentName
from leveret_spark.events.pushed_filters import condition, segments
from leveret_spark.option_errors import DataLossError, OptionError
from tests.pipeline.inputs.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SECRET = "hunter2hunter2"


def test_options_are_checked(tmp_path: Path) -> None:
    from leveret_spark import LeveretEventsDataSource

    with pytest.raises(OptionError, match="option path is missing"):
        LeveretEventsDataSource({})
    with pytest.raises(OptionError, match=r"unknown option 'pth'; known are path, url, user, .*, maxSegmentsPerBatch"):
        LeveretEventsDataSource({"pth": "x"})


def test_filters_spare_segments_and_rows_and_never_one_that_meets_them() -> None:
    from pyspark.sql import datasource as of_spark

    names = [SegmentName(node, boot, 1, 9) for node in "ab" for boot in (1, 2)]
    kind, boot, seq = ("kind",), ("boot",), ("seq",)
    late = of_spark.GreaterThan(seq, 3)
    of_b_or_c, not_in_1 = of_spark.In(("node",), ("b", "c")), of_spark.Not(of_spark.EqualTo(boot, 1))
    assert segments(names, [late, of_b_or_c, not_in_1]) == names[3:]
    assert segments(names, [of_spark.EqualNullSafe(boot, 1), late]) == names
    rows = pa.table({"kind": ["ack", "confirm", None, "ack"], "seq": [1, 4, 5, 6]})
    for filters, left in (
        ([of_spark.StringStartsWith(kind, "a"), late], [6]),
        ([of_spark.IsNull(kind)], [5]),
        ([of_spark.IsNotNull(kind), of_spark.LessThanOrEqual(seq, 4)], [1, 4]),
        ([of_spark.EqualTo(("ts",), datetime.fromisoformat("2026-11-23")), not_in_1, late], [4, 5, 6]),
    ):
        wanted = condition(filters, rows.column_names)
        assert wanted is not None
        assert rows.filter(wanted).column("seq").to_pylist() == left
    assert condition([not_in_1], ["kind"]) is None


def test_a_schema_may_have_some_columns(tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, StringType, StructType

    from leveret_spark import LeveretEventsDataSource

    source, text, number = LeveretEventsDataSource({"path": str(tmp_path)}), StringType(), IntegerType()
    source.reader(StructType().add("kind", text).add("boot", number))
    for name, kind, nullable in (("kind", number, True), ("knd", text, True), ("exchange", text, False)):
        with pytest.raises(OptionError, match=rf"schema\(\) has {name}:.*, and may have struct<"):
            source.reader(StructType().add(name, kind, nullable))


def test_segments_that_were_removed_before_they_were_read_are_named_or_passed_over(tmp_path: Path) -> None:
    """The oldest go first: what follows a segment that is there, or goes on with its next event, is complete."""
    from leveret_spark import LeveretEventsDataSource
    from leveret_spark.events.events_source import EventsStreamReader

    def reader(**options: str) -> EventsStreamReader:
        source = LeveretEventsDataSource({"path": str(tmp_path), "maxSegmentsPerBatch": "1", **options})
        made = source.streamReader(source.schema())
        assert isinstance(made, EventsStreamReader)
        return made

    paths = [*write_segments(tmp_path, "n", 1, 2, 3, 1), *write_segments(tmp_path, "n", 2, 2, previous=(1, 6))]
    strict, passing, offsets = reader(), reader(failOnDataLoss="false"), [reader().initialOffset()]
    for _ in paths:
        offsets.append(strict.latestOffset(offsets[-1], strict.getDefaultReadLimit()))
    assert [offset["n"] for offset in offsets[1:]] == [path.name for path in paths]
    planned = strict.partitions(offsets[0], offsets[2])
    paths[0].unlink()
    with pytest.raises(
        DataLossError, match=f"event log of 'n': segment {paths[0].name}, to be read up to, was removed"
    ):
        strict.partitions(offsets[0], offsets[1])
    with pytest.raises(FileNotFoundError):
        list(strict.read(planned[0]))
    assert list(passing.read(planned[0])) == []
    assert strict.latestOffset(offsets[1]) == offsets[2], "the next goes on with the next event"
    paths[1].unlink()
    with pytest.raises(
        DataLossError, match=f"events behind segment {paths[0].name} were removed before they were read"
    ):
        strict.latestOffset(offsets[1], strict.getDefaultReadLimit())
    assert passing.latestOffset(offsets[1], strict.getDefaultReadLimit()) == offsets[3]
    paths[2].unlink()
    assert strict.latestOffset(offsets[3], strict.getDefaultReadLimit()) == offsets[4], "the next boot goes on with it"
    with pytest.raises(DataLossError, match="events behind segment"):
        strict.partitions(offsets[2], offsets[4])


def shared_environment(spark: SparkSession) -> set[str]:
    """The names in a map that all streams of a source share.

    Two streams that add to it at the same moment leave it with a wrong size, and no task can be given it any more.
    """
    sources = spark._jsparkSession.sessionState().dataSourceManager()
    return set(sources.lookupDataSource("leveret-events").dataSourceCls().envVars())


class Collection:
    """A stream of events into Parquet files, two segments to a batch."""

    def __init__(self, spark: SparkSession, directory: Path, source: str, **access: str) -> None:
        self.out, self._checkpoint = directory / "out", directory / "checkpoint"
        self._spark = spark
        stream = spark.readStream.format("leveret-events").options(maxSegmentsPerBatch="2", **access).load(source)
        query = stream.writeStream.format("parquet").option("checkpointLocation", str(self._checkpoint))
        self._query = query.trigger(availableNow=True)

    def run(self) -> int:
        """Collect what there is; in how many batches."""
        progress = run_to_end(self._query, str(self.out)).recentProgress
        return len([batch for batch in progress if batch.numInputRows])

    def events(self) -> list[tuple[int, int]]:
        return sorted((row.boot, row.seq) for row in self._spark.read.parquet(str(self.out)).collect())

    def undo(self) -> None:
        """Leave of the last batch what its driver leaves when it is killed: its segments are noted, no file is there.

        Spark then writes the files, lists them in `_spark_metadata`, and notes that the batch is done.
        """
        _remove_last(self._checkpoint / "commits")
        for line in _remove_last(self.out / "_spark_metadata").splitlines()[1:]:
            (self.out / Path(json.loads(line)["path"]).name).unlink()


def _remove_last(log: Path) -> str:
    """Take back the last entry of one of Spark's logs; its content."""
    last = max(log.glob("[0-9]*"), key=lambda path: int(path.name))
    content = last.read_text()
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink()
    return content


def test_a_stream_by_http_brings_each_event_once_when_driver_and_broker_are_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import PySparkException

    served = web_broker(tmp_path)
    served.start()
    access = {"user": "reader", "password": SECRET}

    def url() -> str:
        host, port = web_address(served)
        return f"http://{host}:{port}"

    try:
        served.tell("add_user", name="reader", password=SECRET, tags=["monitoring"])
        write_segments(tmp_path / "events", "node", 1, 2, 1, 4, 2, 1)
        shared = shared_environment(spark)
        collection = Collection(spark, tmp_path, url(), **access)
        assert collection.run() == 3
        assert shared_environment(spark) == shared, "a stream adds no name"
        expected = [(1, seq) for seq in range(1, 11)]
        assert collection.events() == expected
        collection.undo()
        served.kill_and_restart()
        write_segments(tmp_path / "events", "node", 2, 3)
        collection = Collection(spark, tmp_path, url(), **access)
        collection.run()
        expected += [(2, seq) for seq in (1, 2, 3)]
        assert collection.events() == expected
        table = spark.read.format("leveret-events").options(url=url(), **access).load()
        assert table.count() == len(expected)
        some = spark.read.format("leveret-events").schema("seq bigint, boot int").options(url=url(), **access)
        for pushed in ("true", "false"):
            rows = some.option("pushFilters", pushed).load().where("boot = 2 and seq > 1").collect()
            assert [(row.seq, row.boot) for row in rows] == [(2, 2), (3, 2)]
        assert SECRET not in table._jdf.queryExecution().toString()
        refused = spark.read.format("leveret-events").options(url=url(), user="reader", password=f"not {SECRET}")
        with pytest.raises(PySparkException, match="401 Login failed") as raised:
            refused.load().count()
        assert SECRET not in str(raised.value)
    finally:
        served.kill()
