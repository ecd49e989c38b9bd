"""Streams as a source with offsets: where they begin and end, ranges of them, and Spark's exactly once into files.

Kills of the driver, of a worker and of the broker are a campaign (tests/durability/stream_kills).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import IntegerType, StructType

from harness.brokers.broker_process import BrokerProcess
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.waiting import eventually
from leveret_spark.amqp.broker_api import management_of
from leveret_spark.amqp.float_headers import Properties
from leveret_spark.amqp.publisher import Outgoing, Publisher
from leveret_spark.amqp.received_message import stream_offset
from leveret_spark.data_source import AmqpDataSource
from leveret_spark.option_errors import AmqpError, HttpError, OptionError
from leveret_spark.option_uses import QUEUE_QUERY, QUEUE_TABLE, SINK, STREAM_QUERY, STREAM_TABLE, USES, check_use
from leveret_spark.options import KNOWN, Given, broker_of, writing_of
from leveret_spark.queues.message_columns import Columns
from leveret_spark.spark_engine import ReadMaxRows
from leveret_spark.streams.stream_ends import StreamEnds, is_stream
from leveret_spark.streams.stream_options import stream_reading_of
from leveret_spark.streams.stream_position import Position
from leveret_spark.streams.stream_range import RangePartition, RangeRead
from tests.pipeline.inputs.command import leveret
from tests.pipeline.inputs.queue_client import Desk, WebDesk, desk_at
from tests.pipeline.inputs.streams import bodies, grown, publish, reader_of, run_to_end

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


def test_a_look_at_a_time_finds_what_is_there(desk: Desk, stream: Queue) -> None:
    """RabbitMQ delivers some messages behind its answer to what it is asked after the consumer."""
    name, begun = stream(1), datetime.now(UTC).replace(microsecond=0)
    with StreamEnds(broker_of(desk.options)) as ends:
        for number in range(1, 400):
            desk.channel.basic_publish("", name, b"%d" % number)
            assert ends.since({name: begun - timedelta(seconds=1)}) == {name: 0}


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
    assert bodies(passing, passing.partitions(start, end)) == [*range(count)]
    assert bodies(passing, passing.partitions(end, later)) == [count]
    assert bodies(passing, passing.partitions({name: 0}, start)) == []
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
    some = spark.read.format("amqp").schema("offset bigint, headers array<struct<key:string,value:binary>>")
    table = some.options(**desk.options, queue=name, **bounds).load().collect()
    assert [(row.offset, row.headers[0].key) for row in table] == [
        (offset, "x-stream-offset") for offset in range(20, 24)
    ]


def table_of(desk: Desk, name: str, **options: str) -> list[int]:
    """Return the numbers in a table."""
    source = AmqpDataSource({**desk.options, "queue": name, **options})
    reader = source.reader(source.schema())
    return bodies(reader, reader.partitions())


def test_limits_of_a_batch_and_of_a_task(desk: Desk, stream: Queue) -> None:
    name = stream(60)
    reader = reader_of(desk, name, maxBytesPerTrigger="1000", maxRecordsPerPartition="8")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end[name] == 20, "50 bytes each"
    assert [len(bodies(reader, [part])) for part in reader.partitions(start, end)] == [6, 7, 7]
    reader.stop()
    patient = reader_of(desk, name, minOffsetsPerTrigger="70", maxTriggerDelay="1h")
    begun = patient.latestOffset(start)
    assert begun[name] == 60, "the first batch does not wait"
    publish(desk, name, range(60, 100))
    assert patient.latestOffset(begun) == begun
    publish(desk, name, range(100, 140))
    eventually(lambda: patient.latestOffset(begun)[name] == 140, "enough messages")
    patient.stop()


def test_boundaries_by_time_have_a_strategy_and_offsets_beyond_the_end_are_named(desk: Desk, stream: Queue) -> None:
    name, late = stream(10), str(4_000_000_000_000)
    with pytest.raises(OptionError, match=f"startingOffsetsByTimestamp: stream '{name}' has no message at 2096-10-02 "):
        table_of(desk, name, startingOffsetsByTimestamp=json.dumps({name: int(late)}))
    assert table_of(desk, name, startingTimestamp=late, startingOffsetsByTimestampStrategy="latest") == []
    early = json.dumps({name: 1_000_000_000_000})
    by_time = {"startingOffsetsByTimestamp": early, "endingOffsetsByTimestamp": json.dumps({name: int(late)})}
    assert table_of(desk, name, **by_time) == [*range(10)]
    assert table_of(desk, name, endingOffsetsByTimestamp=early) == []
    for option in ("startingOffsets", "endingOffsets"):
        with pytest.raises(AmqpError, match=f"it ends at offset 10, option {option} has 11; failOnDataLoss = false"):
            table_of(desk, name, **{option: json.dumps({name: 11})})
    assert table_of(desk, name, endingOffsets=json.dumps({name: 11}), failOnDataLoss="false") == [*range(10)]
    with pytest.raises(AmqpError, match="it ends at offset 10, option startingOffsets has 11"):
        reader_of(desk, name, startingOffsets=json.dumps({name: 11})).initialOffset()


@pytest.mark.parametrize("unfiltered", [True, False])
def test_a_filter_selects_messages_to_the_end_of_a_range(desk: Desk, stream: Queue, unfiltered: bool) -> None:
    name = stream(30)
    for number in range(30, 90):
        headers = {"x-stream-filter-value": "eu" if number % 3 else "us"}
        desk.channel.basic_publish("", name, b"%d" % number, Properties(headers=headers))
    publish(desk, name, range(90, 120))
    options = {"streamFilter": "us,asia", "streamFilterUnfiltered": str(unfiltered).lower(), "prefetch": "10"}
    others = {*range(30), *range(90, 120)} if unfiltered else set()
    assert table_of(desk, name, **options) == sorted({*range(30, 90, 3)} | others)


def test_the_first_address_that_answers_is_used(desk: Desk, queue: Queue, stream: Queue) -> None:
    """By connections that wait, by those that look, and by those with a thread of their own."""
    host, port = desk.address
    options = {"host": f"{host}:1,{host}:{port}", "reconnectSeconds": "0"}
    assert table_of(desk, stream(3), **options, port=str(port)) == [0, 1, 2]
    target = queue()
    with Publisher(broker_of(options), writing_of({})) as publisher:
        publisher.publish(Outgoing("", target, Properties(), b"x"))
        assert publisher.finish().confirmed == 1


def test_a_schema_may_have_some_columns_and_the_time_of_the_broker(desk: Desk, stream: Queue) -> None:
    name = stream(1)
    desk.channel.basic_publish("", name, b"1", Properties(headers={"timestamp_in_ms": 1_764_357_483_123}))
    source = AmqpDataSource({**desk.options, "queue": name, "includeBrokerTimestamp": "true"})
    chosen = StructType([source.schema()[column] for column in ("offset", "broker_timestamp")])
    reader = source.reader(chosen)
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert [[*row] for row in rows] == [["offset", "broker_timestamp"]] * 2
    assert [row["broker_timestamp"] for row in rows] == [None, datetime.fromtimestamp(1_764_357_483.123, UTC)]
    with pytest.raises(OptionError, match=r"schema\(\) has body:int, and may have struct<body:binary,"):
        source.reader(StructType().add("body", IntegerType()))


def test_a_group_commits_its_offsets_at_the_broker(web_desk: WebDesk, name: Any) -> None:
    """Those before the start of each batch that Spark asks for. RabbitMQ has no such request, and says so."""
    desk, web = web_desk
    stream = name("clicks")
    desk.channel.confirm_delivery()
    desk.channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
    publish(desk, stream, range(20))
    reader = reader_of(desk, stream, managementUrl=web, groupId="billing 1")
    start = reader.initialOffset()
    if REFERENCE:
        with pytest.raises(OptionError, match=r"option groupId: the broker at http://.* stores no offsets of AMQP"):
            reader.latestOffset(start)
        desk.channel.queue_delete(stream)
        return
    offsets = management_of(Given({"managementUrl": web}), broker_of(desk.options))
    end = eventually(partial(grown, reader, start, 20), "all messages")
    for position, lag in ((start, 20), (end, 0)):
        reader.latestOffset(position)
        rows = offsets.get("/api/leveret/stream-offsets")
        assert [(row["queue"], row["group"], row["lag"]) for row in rows] == [(stream, "billing 1", lag)]
    desk.channel.queue_delete(stream)
    with pytest.raises(HttpError, match=f"400 Bad Request .*there is no stream '{stream}'"):
        reader.commit({stream: 1})
    reader.stop()


def test_a_checkpoint_of_another_source_is_told(desk: Desk, queue: Queue) -> None:
    for told in ({"run": "1f", "messages": 3}, {"clicks": 1, "$identity": {"clicks": 7}}, {"rabbit@a": None}):
        with pytest.raises(AmqpError, match=r"the checkpoint is not of streams, .*: take another checkpointLocation"):
            Position.read(told)
    source = AmqpDataSource({**desk.options, "queue": queue()})
    with pytest.raises(AmqpError, match=r"the checkpoint is not of a queue, .*: take another checkpointLocation"):
        source.streamReader(Columns("json").schema).latestOffset({"clicks": 1}, ReadMaxRows(10))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"startingOffsets": "1"}, "option startingOffsets is earliest, latest, or JSON such as"),
        ({"startingOffsets": '{"other": 1}'}, "with every stream"),
        ({"startingOffsets": '{"q": -3}'}, "has an offset, earliest or latest for each stream, not -3"),
        (
            {"startingOffsets": "latest", "startingTimestamp": "1"},
            "startingOffsets and startingTimestamp exclude each other",
        ),
        ({"minPartitions": "1", "partitions": "1"}, "options partitions and minPartitions exclude each other"),
        ({"queues": "q"}, "options queue and queues exclude each other"),
        ({"superStream": "q"}, "options queue and superStream exclude each other"),
        ({"startingOffsetsByTimestamp": '{"q": "today"}'}, "has milliseconds since 1970 for each stream, not 'today'"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "goes with startingTimestamp or startingOffsetsByTimestamp"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is a time such as 15m, 30s or 500ms, not 'soon'"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "at most maxOffsetsPerTrigger, which is 8, not 9"),
        ({"streamFilterUnfiltered": "true"}, "option streamFilterUnfiltered goes with streamFilter"),
    ],
)
def test_boundaries_that_mean_nothing_are_refused(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        stream_reading_of({"queue": "q", **options}, broker_of({}), batch=False)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"startingOffsets": "latest"}, "option startingOffsets is latest, which is for streaming queries"),
        ({"startingOffsets": '{"q": -1}'}, "option startingOffsets is latest, which is for streaming queries"),
        ({"endingOffsets": "earliest"}, "option endingOffsets is earliest, before which there is nothing"),
    ],
)
def test_tables_that_would_be_empty_are_refused(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        stream_reading_of({"queue": "q", **options}, broker_of({}), batch=True)


@pytest.mark.parametrize(
    ("use", "options", "complaint"),
    [
        (
            STREAM_QUERY,
            {"endingOffsets": "latest"},
            "endingOffsets is for tables of streams, not for streaming queries",
        ),
        (STREAM_QUERY, {"ack": "after"}, "option ack is for tables of queues, not for streaming queries of streams"),
        (STREAM_QUERY, {"connections": "2"}, "option connections is for queues, not for streaming queries of streams"),
        (STREAM_QUERY, {"exchange": "x"}, "option exchange is for sinks, not for streaming queries of streams"),
        (
            STREAM_TABLE,
            {"maxMessagesPerBatch": "9"},
            "maxMessagesPerBatch is for queues and streaming queries of streams",
        ),
        (
            STREAM_TABLE,
            {"maxOffsetsPerTrigger": "9"},
            "option maxOffsetsPerTrigger is for queues and streaming queries",
        ),
        (QUEUE_TABLE, {"maxOffsetsPerTrigger": "9"}, "option maxOffsetsPerTrigger is for streaming queries, not for"),
        (QUEUE_QUERY, {"ack": "never"}, "option ack is for tables of queues, not for streaming queries of queues"),
        (QUEUE_QUERY, {"startingOffsets": "latest"}, r"option startingOffsets is for streams \(x-queue-type: stream\)"),
        (SINK, {"queue": "q"}, "option queue is for sources, not for sinks"),
    ],
)
def test_options_without_effect_are_refused(use: str, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        check_use(Given(options), use)


def test_every_option_has_a_use() -> None:
    assert USES.keys() == set(KNOWN.values())


def test_boundaries_are_words_offsets_or_a_time() -> None:
    told = {"subscribe": "a, b", "startingOffsets": '{"a": -2, "b": {"0": 7}}', "endingTimestamp": "1700000000999"}
    reading = stream_reading_of(told, broker_of({}), batch=True)
    queues = reading.names.fixed
    assert (queues, reading.starts.of(queues)) == (("a", "b"), {"a": "earliest", "b": 7})
    assert reading.ends.of(queues) == dict.fromkeys("ab", datetime.fromtimestamp(1_700_000_000, UTC))
