"""Streams as a source with offsets: where they begin and end, ranges of them, and Spark's exactly once into files.

Kills of the driver, of a worker and of the broker are a campaign (tests/durability/stream_kills).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.brokers.broker_process import BrokerProcess
from harness.waiting import eventually
from leveret_spark.amqp.received_message import stream_offset
from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import broker_of, reading_of
from leveret_spark.queues.message_columns import Columns
from leveret_spark.streams.stream_ends import StreamEnds, is_stream
from leveret_spark.streams.stream_options import stream_reading_of
from leveret_spark.streams.stream_range import RangePartition, RangeRead
from leveret_spark.streams.stream_source import Streams, StreamsReader
from tests.pipeline.inputs.command import leveret
from tests.pipeline.inputs.queue_client import Desk, desk_at
from tests.pipeline.inputs.streams import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

Queue = Callable[..., str]


@pytest.fixture
def stream(desk: Desk, queue: Queue) -> Callable[..., str]:
    """A function that declares a stream with messages 0, 1, 2, ..."""
    desk.channel.confirm_delivery()

    def filled(count: int, **arguments: Any) -> str:
        name = queue(**{"x-queue-type": "stream", **arguments})
        for number in range(count):
            desk.channel.basic_publish("", name, b"%50d" % number)
        return name

    return filled


def numbers(desk: Desk, queue: str, start: int, end: int, *, fails_on_loss: bool = True) -> list[int]:
    """Return the numbers of the messages that a task reads of a range."""
    broker, part = broker_of(desk.options), RangePartition(queue, start, end)
    messages = [message for piece in RangeRead(broker, part, 10, fails_on_loss=fails_on_loss) for message in piece]
    assert all(offset in range(start, end) for offset in map(stream_offset, messages))
    return [int(message[0]) for message in messages]


def test_ends_are_exact_and_ranges_too(desk: Desk, queue: Queue, stream: Queue) -> None:
    broker = broker_of(desk.options)
    assert not is_stream(broker, queue())
    with pytest.raises(AmqpError, match="404 NOT_FOUND - no queue 'misspelt'"):
        is_stream(broker, "misspelt")
    empty, filled = stream(0), stream(100)
    ends = StreamEnds(broker)
    assert [ends.first(each) for each in (empty, filled)] == [0, 0]
    assert ends.ends([empty, filled]) == ends.ends_within([empty, filled], 0) == {empty: 0, filled: 100}
    assert ends.since({filled: datetime(2020, 1, 1, tzinfo=UTC)}) == {filled: 0}
    assert ends.since({filled: datetime(2099, 1, 1, tzinfo=UTC)}) == {filled: None}
    for number in range(100, 150):
        desk.channel.basic_publish("", filled, b"%d" % number)
        assert ends.ends_within([filled, empty], 5) == {filled: number + 1, empty: 0}
    bursts = desk.channel.connection.channel()
    for _ in range(500):  # not confirmed one by one: RabbitMQ has them in few chunks
        bursts.basic_publish("", filled, b"burst")
    eventually(lambda: ends.ends_within([filled], 0.1) == {filled: 650}, "the end of the last chunk")
    parts = RangePartition(filled, 3, 150).split(4)
    read = [numbers(desk, filled, part.start, part.end) for part in parts]
    assert list(chain(*read)) == [*range(3, 150)]
    ends.close()


def test_what_retention_removed_is_named_or_passed_over(desk: Desk, stream: Queue) -> None:
    """RabbitMQ numbers records of its own as well, one in each segment."""
    name = stream(300, **{"x-max-length-bytes": 4000, "x-stream-max-segment-size-bytes": 2000})
    ends = StreamEnds(broker_of(desk.options))
    first, end = eventually(lambda: ends.first(name), "retention"), ends.ends([name])[name]
    ends.close()
    kept = numbers(desk, name, 5, end, fails_on_loss=False)
    assert kept == [*range(kept[0], 300)]
    assert 0 < kept[0] <= first < end
    with pytest.raises(AmqpError, match=r"offsets 5 to \d+ were removed by retention before they were read"):
        numbers(desk, name, 5, end)


def reader_of(desk: Desk, name: str, **options: str) -> StreamsReader:
    """A reader as the planner of a query has it."""
    reading = stream_reading_of({"queue": name, "startingOffsets": "earliest", **options}, batch=False)
    return StreamsReader(Streams(broker_of(desk.options), reading, Columns("json")), reading)


def publish(desk: Desk, name: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        desk.channel.basic_publish("", name, b"%50d" % number)


def replace(desk: Desk, name: str, count: int) -> None:
    """Delete a stream, and declare it again with as many messages, which are like those before."""
    desk.channel.queue_delete(name)
    desk.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    publish(desk, name, range(count))


@pytest.mark.parametrize("count", [10, 30, 60], ids=["shorter", "as long", "longer"])
@pytest.mark.parametrize("restarted", [True, False], ids=["restarted", "running"])
def test_a_stream_that_was_declared_again_is_noticed(desk: Desk, stream: Queue, count: int, restarted: bool) -> None:
    name = stream(30)
    told, begun = {"failOnDataLoss": "true"}, reader_of(desk, name)
    start = begun.latestOffset(begun.initialOffset())
    assert start[name] == 30
    assert begun.latestOffset(start) == start
    replace(desk, name, count)
    reader = reader_of(desk, name, **told) if restarted else begun
    with pytest.raises(AmqpError, match=f"read up to offset 30, and ends at {count}: it was deleted and declared"):
        eventually(lambda: reader.latestOffset(start) != start, "the deletion to be told")
    (part,) = begun.partitions({name: 0}, start)
    with pytest.raises(AmqpError, match="offsets 0 to 29 are gone: it was deleted and declared again"):
        list(begun.read(part))
    begun.stop()
    reader.stop()
    passing = reader_of(desk, name, failOnDataLoss="false")
    end = passing.latestOffset(start)
    publish(desk, name, [count])
    later = passing.latestOffset(end)
    for start_of_batch, expected in ((start, range(count)), (end, [count])):
        end_of_batch = end if start_of_batch is start else later
        rows = [row for part in passing.partitions(start_of_batch, end_of_batch) for row in passing.read(part)]
        assert [int(body) for batch in rows for body in batch.column("body").to_pylist()] == [*expected]
    assert [row for part in passing.partitions({name: 0}, start) for row in passing.read(part)] == []
    passing.stop()


def test_what_a_restored_backup_lacks_is_named(fresh_broker: BrokerProcess, tmp_path: Path) -> None:
    """One reader is behind the backup, another has read what the backup lacks."""
    with desk_at(fresh_broker.address) as desk:
        desk.channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        desk.channel.confirm_delivery()
        publish(desk, "s", range(3))
        behind, ahead = reader_of(desk, "s"), reader_of(desk, "s")
        start = behind.latestOffset(behind.initialOffset())
        assert leveret("backup", tmp_path / "backup", "--data-dir", fresh_broker.data_dir).code == 0
        publish(desk, "s", [3])
        beyond = ahead.latestOffset(start)
    assert (start["s"], beyond["s"]) == (3, 4)
    fresh_broker.kill()
    ended = leveret("restore", tmp_path / "backup", "--data-dir", fresh_broker.data_dir, "--replace")
    assert ended.code == 0, ended.errors
    fresh_broker.start()
    with pytest.raises(AmqpError, match=r"read up to offset 4, and ends at 3: .* or its broker restored from an older"):
        ahead.latestOffset(beyond)
    with desk_at(fresh_broker.address) as desk:
        desk.channel.confirm_delivery()
        publish(desk, "s", [4])
    (part,) = behind.partitions(start, behind.latestOffset(start))
    with pytest.raises(AmqpError, match=r"offsets 3 to \d+ are of no message: the broker was restored from a backup"):
        list(behind.read(part))
    behind.stop()
    ahead.stop()


@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_what_retention_removes_while_a_range_is_read_is_named(desk: Desk, queue: Queue, fails_on_loss: bool) -> None:
    """A slow task: it has read the beginning, and the middle goes before it comes there."""
    desk.channel.confirm_delivery()
    name = queue(**{"x-queue-type": "stream", "x-max-length-bytes": 4000, "x-stream-max-segment-size-bytes": 2000})
    for number in range(8):
        desk.channel.basic_publish("", name, b"%50d" % number)
    part = RangePartition(name, 0, 420)
    pieces = iter(RangeRead(broker_of(desk.options), part, 4, fails_on_loss=fails_on_loss))
    begun = next(pieces)
    for number in range(8, 420):
        desk.channel.basic_publish("", name, b"%50d" % number)
    ends = StreamEnds(broker_of(desk.options))
    eventually(lambda: ends.first(name) > 8, "retention")
    part.end = ends.ends([name])[name]
    ends.close()
    if fails_on_loss:
        with pytest.raises(AmqpError, match=r"offsets \d+ to \d+ were removed by retention"):
            list(pieces)
    else:
        read = [int(message[0]) for piece in (begun, *pieces) for message in piece]
        assert len(begun) <= 8
        assert read[-1] == 419
        assert read == sorted(set(read))


def test_a_stream_goes_into_files_exactly_once(spark: SparkSession, desk: Desk, stream: Queue, tmp_path: Path) -> None:
    """Through a batch that fails, a batch whose commit is not known, and a restart."""
    name, other = stream(25), stream(5)
    source = spark.readStream.format("amqp").options(**desk.options, subscribe=f"{name},{other}", minPartitions=2)
    rows = source.options(maxOffsetsPerTrigger=20, startingOffsets="earliest", headersAs="map").load()
    places = {"path": str(tmp_path / "rows"), "checkpointLocation": str(tmp_path / "c")}
    writer = rows.writeStream.format("parquet").options(**places).trigger(availableNow=True)
    query = run_to_end(writer)
    progress = query.lastProgress
    assert progress is not None
    assert json.loads(progress["sources"][0]["latestOffset"]) == {name: 25, other: 5}
    last = max(int(each.name) for each in (tmp_path / "c" / "commits").glob("[0-9]*"))
    for each in (str(last), f".{last}.crc"):
        (
            tmp_path / "c" / "commits" / each
        ).unlink()  # as if it had been killed between the files of a batch and its commit
    desk.channel.basic_publish("", name, b"25")
    run_to_end(writer)
    found = [(row.queue, row.offset, int(row.body)) for row in spark.read.parquet(places["path"]).collect()]
    assert sorted(found) == sorted([(name, n, n) for n in range(26)] + [(other, n, n) for n in range(5)])
    bounds = {
        "startingOffsets": json.dumps({name: 20}),
        "endingOffsets": json.dumps({name: 24}),
        "includeHeaders": "true",
    }
    table = spark.read.format("amqp").options(**desk.options, queue=name, **bounds).load().collect()
    assert [(row.offset, row.headers[0].key) for row in table] == [
        (offset, "x-stream-offset") for offset in range(20, 24)
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for tables"),
        ({"startingOffsets": "1"}, "option startingOffsets is earliest, latest, or JSON such as"),
        ({"startingOffsets": '{"other": 1}'}, "with every stream"),
        ({"startingOffsets": '{"q": -3}'}, "has an offset, earliest or latest for each stream, not -3"),
        (
            {"startingOffsets": "latest", "startingTimestamp": "1"},
            "startingOffsets and startingTimestamp exclude each other",
        ),
        ({"minPartitions": "1", "partitions": "1"}, "options partitions and minPartitions exclude each other"),
        ({"queues": "q"}, "options queue and queues exclude each other"),
    ],
)
def test_boundaries_that_mean_nothing_are_refused(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        stream_reading_of({"queue": "q", **options}, batch=False)


def test_boundaries_are_words_offsets_or_a_time_and_no_other_queue_takes_them() -> None:
    told = {"subscribe": "a, b", "startingOffsets": '{"a": -2, "b": 7}', "endingTimestamp": "1700000000999"}
    reading = stream_reading_of(told, batch=True)
    assert (reading.queues, reading.starts) == (("a", "b"), {"a": "earliest", "b": 7})
    assert reading.ends == dict.fromkeys("ab", datetime.fromtimestamp(1_700_000_000, UTC))
    with pytest.raises(OptionError, match="option startingOffsets is for streams"):
        reading_of({"queue": "q", "startingOffsets": "latest"})
