"""Super streams: their partitions as a source, and rows that go to the partition that their columns choose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

from harness.waiting import eventually
from leveret_spark.data_source import AmqpDataSource
from leveret_spark.option_errors import AmqpError, HttpError, OptionError
from leveret_spark.options import writing_of
from leveret_spark.queues.partition_hash import SEED, SuperStreamPartitions, murmur3, partition_of
from leveret_spark.queues.rows import Rows, RowShape
from leveret_spark.streams.stream_position import Position
from tests.pipeline.inputs.queue_client import WebDesk
from tests.pipeline.inputs.streams import bodies, grown, publish, reader_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def super_stream(web_desk: WebDesk, name: Any) -> Iterator[Callable[[int], str]]:
    """A function that adds a partition to a super stream; returns the stream."""
    desk, exchange, added = web_desk.desk, name("invoices"), []
    desk.channel.exchange_declare(exchange, "direct", durable=True)

    def add(order: int) -> str:
        stream = f"{exchange}-{order}"
        added.append(stream)
        desk.channel.queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"})
        arguments = {"x-stream-partition-order": order}
        desk.channel.queue_bind(stream, exchange, f"key {order}", arguments)
        return stream

    yield add
    desk.channel.exchange_delete(exchange)
    for each in added:
        desk.channel.queue_delete(each)


def test_a_super_stream_is_its_partitions_and_those_that_are_added(
    web_desk: WebDesk, super_stream: Callable[[int], str]
) -> None:
    desk, web = web_desk
    second, first = super_stream(1), super_stream(0)
    exchange = first.removesuffix("-0")
    place = {"managementUrl": web}
    desk.channel.confirm_delivery()
    publish(desk, first, range(20))
    publish(desk, second, range(20, 40))
    reader = reader_of(desk, "", **place, superStream=exchange)
    start = reader.initialOffset()
    end = eventually(partial(grown, reader, start, 40), "all messages")
    assert [*Position.read(start).offsets] == [first, second]
    assert end[first] > 0 < end[second]
    assert sorted(bodies(reader, reader.partitions(start, end))) == [*range(40)]
    third = super_stream(2)
    publish(desk, third, range(40, 50))
    for later in (reader, reader_of(desk, "", **place, superStream=exchange)):
        later_end = eventually(partial(grown, later, end, 50), "the new partition", seconds=30)
        assert later_end[third] == 10
        assert bodies(later, later.partitions(end, later_end)) == [*range(40, 50)]
        later.stop()
    told = {"assign": json.dumps({exchange: [2, 0]})}, {"subscribePattern": f"{exchange}-[02]"}
    for options in told:
        source = AmqpDataSource({**desk.options, **place, **options})
        table = source.reader(source.schema())
        assert {part.queue for part in table.partitions()} == {first, third}
    with pytest.raises(OptionError, match=r"option assign has partition 7 of 'inv.*', which has \[0, 1, 2\]"):
        AmqpDataSource({**desk.options, **place, "assign": json.dumps({exchange: [7]})}).reader(
            source.schema()
        ).partitions()
    with pytest.raises((OptionError, HttpError), match=r"misspelt' of http://.*: no stream is bound|misspelt/.*: 404 "):
        reader_of(desk, "", **place, superStream="misspelt").initialOffset()
    partly = reader_of(desk, "", **place, assign=json.dumps({exchange: [0]}))
    with pytest.raises(AmqpError, match="is not among the streams to read any more; failOnDataLoss = false leaves it"):
        partly.latestOffset(later_end)
    partly.stop()
    desk.channel.queue_bind(first, exchange, "key", {"x-stream-partition-order": "second"})
    with pytest.raises(OptionError, match="has x-stream-partition-order = 'second', which is to be a whole number"):
        reader_of(desk, "", **place, superStream=exchange).initialOffset()


def test_rows_go_to_the_partition_that_their_columns_choose(
    spark: SparkSession, web_desk: WebDesk, super_stream: Callable[[int], str]
) -> None:
    """By the hash of columns, by its number, and without either to one after the other."""
    streams = [super_stream(order) for order in range(3)]
    exchange = streams[0].removesuffix("-0")
    rows = [(f"hello{n}", "", f"hello{n}", None) for n in range(1, 7)]
    rows += [("two", "hello1:x", "x", None), ("number", "", "hello1", 2), ("null", None, None, None)]
    frame = spark.createDataFrame(rows, "body string, a string, b string, partition int").coalesce(1)
    sink = frame.selectExpr("body", "if(a = '', b, 'hello1') as a", "if(a = '', null, b) as b", "partition").write
    place = {"managementUrl": web_desk.url, "superStream": exchange, "hashColumns": "a, b"}
    sink.format("amqp").options(**web_desk.desk.options, **place).mode("append").save()
    table = spark.read.format("amqp").options(**web_desk.desk.options, managementUrl=web_desk.url, superStream=exchange)
    found = {row.body.decode(): streams.index(row.queue) for row in table.load().select("body", "queue").collect()}
    hashed = {row[0]: partition_of([row[2], None], 3) for row in rows[:6]}
    assert found == {**hashed, "two": partition_of(["hello1", "x"], 3), "number": 2, "null": 8 % 3}


def test_partitions_are_those_of_rabbitmqs_stream_clients() -> None:
    """Vectors of MurmurHash3; the clients' hashes of some keys, and the partitions that they choose of three."""
    known = [(b"", 1, 0x514E28B7), (b"test", 0x9747B28C, 0x704B81DC), (b"Hello, world!", 0x9747B28C, 0x24884CBA)]
    of_clients = [(b"hello1", SEED, 284_792_890), (b"hello2", SEED, 3_228_679_428), (b"hello3", SEED, 1_175_060_731)]
    for data, seed, found in (*known, *of_clients):
        assert murmur3(data, seed) == found
    assert [partition_of([f"hello{n}"], 3) for n in range(1, 7)] == [1, 0, 1, 2, 0, 2]
    assert partition_of([7], 1000) == partition_of([b"7"], 1000) == partition_of(["7"], 1000)


def test_a_partition_is_chosen_by_number_by_hash_or_in_turn() -> None:
    partitions = SuperStreamPartitions(("x", "y", "z"), ("a", "b"))
    assert partitions.key({"a": "hello4", "b": None, "partition": 0}, 1) == "x"
    assert [partitions.key({"a": None, "b": None, "partition": None}, number) for number in range(4)] == [*"xyzx"]
    with pytest.raises(IndexError, match="3 is not from 0 to 2"):
        partitions.key({"partition": 3}, 0)


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ("body string", {}, "rows need a column 'routing_key' or 'partition', or option hashColumn"),
        ("body string, a string", {"hashColumn": "b"}, "option hashColumn has 'b'; there are body, a"),
        ("body string, a double", {"hashColumn": "a"}, "column 'a' is of type double: cast it to string to hash it"),
        ("body string, partition string", {}, "column 'partition' is of type string, and must be a number"),
        ("body string, partition integer, a integer", {}, "column 'a' is not a message property"),
    ],
)
def test_columns_that_cannot_choose_are_refused(columns: str, options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        RowShape(_schema(columns), writing_of({"superStream": "s", **options}))


def _schema(columns: str) -> StructType:
    schema = StructType()
    for column in columns.split(", "):
        schema = schema.add(*column.split())
    return schema


def test_a_partition_that_is_not_there_is_named_with_its_row() -> None:
    shape = RowShape(_schema("body string, partition integer"), writing_of({"superStream": "s"}))
    with pytest.raises(ValueError, match="row 0 of the partition, column 'partition': 5 is not from 0 to -1"):
        list(Rows(shape, "x").messages(("a", 5)))
