"""Streams as a source with offsets: where they begin and end, ranges of them, and Spark's exactly once into files.

Kills of the driver, of a worker and of the broker are a campaign (tests/durability/stream_kills).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.waiting import eventually
from leveret_spark.amqp.received_message import stream_offset
from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import broker_of, reading_of
from leveret_spark.queues.message_columns import Columns
from leveret_spark.streams.stream_ends import StreamEnds, is_stream
from leveret_spark.streams.stream_options import stream_reading_of
from leveret_spark.streams.stream_range import RangePartition, RangeRead
from leveret_spark.streams.stream_source import Streams
from tests.pipeline.inputs.queue_client import Desk
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


def test_ends_are_exact_and_ranges_too(desk: Desk, queue: Queue, stream: Queue, name: Any) -> None:
    broker = broker_of(desk.options)
    assert [is_stream(broker, each) for each in (queue(), name("none"))] == [False, False]
    empty, filled = StreamEnds(broker, stream(0)), stream(100)
    assert (empty.first(), empty.end(), empty.end_within(0)) == (0, 0, 0)
    ends = StreamEnds(broker, filled)
    assert (ends.first(), ends.end(), ends.end_within(0)) == (0, 100, 100)
    assert (ends.since(datetime(2020, 1, 1, tzinfo=UTC)), ends.since(datetime(2099, 1, 1, tzinfo=UTC))) == (0, 100)
    desk.channel.basic_publish("", filled, b"100")
    assert ends.end_within(0) == 101
    parts = RangePartition(filled, 3, 101).split(4)
    read = [numbers(desk, filled, part.start, part.end) for part in parts]
    assert list(chain(*read)) == [*range(3, 101)]
    empty.close()
    ends.close()


def test_what_retention_removed_or_a_deletion_is_named_or_passed_over(desk: Desk, stream: Queue) -> None:
    """RabbitMQ numbers records of its own as well, one in each segment."""
    name = stream(300, **{"x-max-length-bytes": 4000, "x-stream-max-segment-size-bytes": 2000})
    ends = StreamEnds(broker_of(desk.options), name)
    first, end = eventually(ends.first, "retention"), ends.end()
    ends.close()
    kept = numbers(desk, name, 5, end, fails_on_loss=False)
    assert kept == [*range(kept[0], 300)]
    assert 0 < kept[0] <= first < end
    with pytest.raises(AmqpError, match=f"offsets 5 to {first - 1} were removed by retention before they were read"):
        numbers(desk, name, 5, end)
    for told, read_again in (("true", False), ("false", True)):
        reading = stream_reading_of({"queue": name, "failOnDataLoss": told}, batch=False)
        streams = Streams(broker_of(desk.options), reading, Columns("json"))
        with nullcontext() if read_again else pytest.raises(AmqpError, match="deleted and declared again"):
            assert streams.not_before({name: 500}, {name: end}) == {name: end}
            assert repr(streams.planned({name: 500}, {name: end})) == f"[RangePartition({name} from 0 to {end})]"


@pytest.mark.parametrize("fails_on_loss", [True, False])
def test_what_retention_removes_while_a_range_is_read_is_named(desk: Desk, queue: Queue, fails_on_loss: bool) -> None:
    """A slow task: it has read the beginning, and the middle goes before it comes there."""
    desk.channel.confirm_delivery()
    name = queue(**{"x-queue-type": "stream", "x-max-length-bytes": 4000, "x-stream-max-segment-size-bytes": 2000})
    for number in range(20):
        desk.channel.basic_publish("", name, b"%50d" % number)
    pieces = iter(RangeRead(broker_of(desk.options), RangePartition(name, 0, 400), 4, fails_on_loss=fails_on_loss))
    begun = next(pieces)
    for number in range(20, 420):
        desk.channel.basic_publish("", name, b"%50d" % number)
    ends = StreamEnds(broker_of(desk.options), name)
    first = eventually(ends.first, "retention")
    ends.close()
    if fails_on_loss:
        with pytest.raises(AmqpError, match=f"offsets .* to {first - 1} were removed by retention"):
            list(pieces)
    else:
        read = [int(message[0]) for piece in (begun, *pieces) for message in piece]
        assert len(begun) < 20
        assert read[-1] == 399
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
