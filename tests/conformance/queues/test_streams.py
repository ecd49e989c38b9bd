"""Streams over AMQP 0-9-1: declaring them, reading them from a place of one's own, what is refused, what is kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicNack,
    BasicRecover,
    BasicReject,
    ConfirmSelect,
    QueueDeclareOk,
    QueueDeleteOk,
    QueuePurge,
)
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import REFERENCE, differs
from harness.clients.amqp_peer import Message
from harness.clients.contents import ALL_PROPERTIES
from harness.clients.queue_steps import bodies, deliveries, deposit, numbered
from harness.clients.shorthand import ack, consume, get, prefetch, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Connect, Made

STREAM = {"x-queue-type": "stream"}
YOUNGER = pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ has it since 3.13")


@pytest.fixture
def declare(declare: Made) -> Made:
    """A function that declares a stream; `max_age="1h"` is the argument x-max-age."""
    return partial(declare, queue_type="stream")


@pytest.fixture
def stream(declare: Made) -> str:
    return declare()


def fill(client: Client, stream: str, *bodies: bytes, properties: BasicProperties | None = None) -> None:
    """Publish, each confirmed before the next: in RabbitMQ each message is then a chunk of its own."""
    client.open_channel(50)
    client.ask(ConfirmSelect(False), channel=50)
    for body in bodies:
        client.publish(body, key=stream, channel=50, properties=properties)
        client.expect(BasicAck, channel=50)
    client.close_channel(50)


def read_from(client: Client, stream: str, offset: Any = "first", *, credit: int = 100, **arguments: Any) -> None:
    """Consume with the tag `t`, from an offset on; without one if it is None."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(prefetch(credit))
    client.ask(consume(stream, "t", arguments=table if offset is None else {**table, "x-stream-offset": offset}))


def offset_of(message: Message) -> int:
    """Its place in the stream, as the broker says."""
    field = (message.properties.headers or {})["x-stream-offset"]
    assert field.kind == "l"
    return int(field.value)


def delivered(client: Client, count: int) -> list[tuple[int, bytes]]:
    """Await `count` deliveries: offset and body of each."""
    return [(offset_of(message), message.body) for message in deliveries(client, count)]


def from_to(first: int, end: int) -> list[tuple[int, bytes]]:
    """Offsets and bodies of a stream that was filled with numbers."""
    return list(enumerate(numbered(end)))[first:]


# Reading


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        ("last", 4),
        ("next", 5),
        (None, 5),
        (0, 0),
        (3, 3),
        (-5, 0),
        (Field("b", 2), 2),
        (Field("T", 0), 0),
        ("1h", 0),
        (Field("T", 4_000_000_000), 5),
    ],
    ids=str,
)
def test_where_reading_begins(client: Client, stream: str, offset: Any, first: int) -> None:
    """At what is new if nobody says where."""
    fill(client, stream, *numbered(5))
    read_from(client, stream, offset)
    assert delivered(client, 5 - first) == from_to(first, 5)
    fill(client, stream, b"5")
    assert delivered(client, 1) == [(5, b"5")]


def test_an_offset_that_is_still_to_come_is_waited_for(client: Client, stream: str) -> None:
    fill(client, stream, b"0")
    read_from(client, stream, 3)
    fill(client, stream, b"1", b"2", b"3", b"4")
    assert delivered(client, 2) == from_to(3, 5)


def test_reading_an_empty_stream(connect: Connect, client: Client, declare: Made) -> None:
    """Wherever it begins, the first message is the first."""
    for offset in ("first", "last", "next", 0, "1h"):
        stream, reader = declare(), connect()
        read_from(reader, stream, offset)
        fill(client, stream, b"0")
        assert delivered(reader, 1) == [(0, b"0")]


@pytest.mark.parametrize("offset", ["1x", "5", "0s"])
def test_offsets_that_are_none(client: Client, stream: str, offset: str) -> None:
    """Looked at before the prefetch."""
    assert client.refusal(consume(stream, arguments={"x-stream-offset": offset})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/': "
        f'{{invalid_stream_offset_arg,{{longstr,<<"{offset}">>}}}}'
    )


@pytest.mark.parametrize("offset", ["foo", "", "-1", True, 1.5, None, [1]], ids=str)
@differs("RabbitMQ 3.10.8 crashes over them; newer ones answer as they do to other values")
def test_offsets_that_rabbitmq_crashes_over(client: Client, stream: str, offset: Any) -> None:
    """The reference ends the connection with 541."""
    client.ask(prefetch(5))
    client.send(consume(stream, arguments={"x-stream-offset": offset}))
    assert client.closing() == "connection 541 INTERNAL_ERROR"


def test_the_offset_is_a_header(client: Client, stream: str) -> None:
    """Among the message's own headers, in their order; a publisher's own gives way."""
    headers = from_python({"zz": "z", "aa": "a", "x-stream-offset": 99})
    everything = ALL_PROPERTIES._replace(headers=headers, cluster_id=None)
    fill(client, stream, b"0")
    fill(client, stream, b"1", properties=everything)
    read_from(client, stream)
    plain, full = (client.expect_message(BasicDeliver) for _ in range(2))
    assert plain.properties == BasicProperties(headers={"x-stream-offset": Field("l", 0)})
    assert list((full.properties.headers or {}).items()) == [
        ("aa", Field("S", b"a")),
        ("x-stream-offset", Field("l", 1)),
        ("zz", Field("S", b"z")),
    ]
    changed = everything._replace(headers=None, delivery_mode=None)
    assert full.properties._replace(headers=None, delivery_mode=None) == changed
    assert [message.method for message in (plain, full)] == [
        BasicDeliver("t", tag, False, "", stream) for tag in (1, 2)
    ]


def test_every_consumer_reads_for_itself(connect: Connect, client: Client, stream: str) -> None:
    """Nothing is consumed away, nor ever redelivered."""
    fill(client, stream, *numbered(3))
    for _ in range(2):
        reader = connect()
        read_from(reader, stream)
        messages = deliveries(reader, 3)
        assert bodies(messages) == numbered(3)
        assert not any(message.method.redelivered for message in messages)
        reader.send(ack(2, multiple=True))
        reader.close_channel()


def test_credit(client: Client, stream: str) -> None:
    """At most the prefetch count is unacknowledged, for each consumer; an ack makes room for one more."""
    fill(client, stream, *numbered(6))
    read_from(client, stream, credit=2)
    assert delivered(client, 2) == from_to(0, 2)
    client.send(ack(2))
    assert delivered(client, 1) == from_to(2, 3)
    client.send(ack(3, multiple=True))
    assert delivered(client, 2) == from_to(3, 5)
    client.ask(consume(stream, "other", arguments={"x-stream-offset": 1}))
    assert delivered(client, 2) == from_to(1, 3)
    client.ask(BasicCancel("t", False))
    client.send(ack(0, multiple=True))
    messages = deliveries(client, 2)
    assert [(message.method.consumer_tag, offset_of(message)) for message in messages] == [("other", 3), ("other", 4)]
    assert client.arrived() == []


# Refusals


def test_what_streams_do_not_do(connect: Connect, stream: str) -> None:
    for method, what in (
        (get(stream), "basic.get"),
        (QueuePurge(stream, False), "queue.purge"),
        (consume(stream, no_ack=True), "automatic acknowledgement"),
    ):
        client = connect()
        client.ask(prefetch(5))
        refused = (
            f"connection 540 NOT_IMPLEMENTED - {what} not supported by stream queues queue '{stream}' in vhost '/'"
        )
        assert client.refusal(method) == refused


def test_a_consumer_needs_a_prefetch(client: Client, stream: str) -> None:
    """One of the channel is none. The text has these quotation marks."""
    unset = f"channel 406 PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{stream}' in vhost '/''"
    for no_ack in (False, True):
        assert client.refusal(consume(stream, no_ack=no_ack)) == unset
    client.ask(prefetch(5, of_channel=True))
    assert client.refusal(consume(stream)) == unset
    client.ask(prefetch(5))
    client.ask(prefetch(5, of_channel=True))
    assert client.refusal(consume(stream)) == (
        f"connection 540 NOT_IMPLEMENTED - queue '{stream}' in vhost '/' does not support global qos"
    )


@pytest.mark.parametrize(
    "method", [BasicNack(1, False, True), BasicNack(1, False, False), BasicReject(1, True), BasicReject(1, False)]
)
def test_nothing_is_given_back(client: Client, stream: str, method: Any) -> None:
    fill(client, stream, b"0")
    read_from(client, stream)
    delivered(client, 1)
    assert client.refusal(method) == (
        "connection 540 NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues "
        f"queue '{stream}' in vhost '/'"
    )


def test_classic_deliveries_come_back_when_a_stream_refuses(connect: Connect, stream: str, name: Made) -> None:
    """A classic queue's delivery that was to be given back along with a stream's is not lost with the connection."""
    client, other = connect(), connect()
    queue = client.ask(queue_declare(name(), auto_delete=True)).queue
    deposit(client, b"classic", key=queue)
    fill(client, stream, b"0")
    client.send(get(queue))
    client.receive()
    read_from(client, stream)
    delivered(client, 1)
    assert "basic.nack" in client.refusal(BasicNack(0, True, True))
    other.ask(consume(queue))
    assert other.expect_message(BasicDeliver).body == b"classic"


@differs("RabbitMQ 3.10.8 crashes; Leveret refuses it like a nack")
def test_recovering_a_stream(client: Client, stream: str) -> None:
    """The reference ends the connection with 541."""
    fill(client, stream, b"0")
    read_from(client, stream)
    delivered(client, 1)
    client.send(BasicRecover(True))
    assert client.closing() == "connection 541 INTERNAL_ERROR"


# Publishing, counting, deleting


def test_publishing_through_an_exchange(client: Client, stream: str, new_exchange: Made) -> None:
    """Transient messages are kept like others, and say what they were."""
    exchange = new_exchange("fanout")
    client.ask(queue_bind(stream, exchange))
    client.ask(ConfirmSelect(False))
    client.publish(b"0", exchange=exchange, key="any", mandatory=True, properties=BasicProperties(delivery_mode=1))
    client.expect(BasicAck)
    read_from(client, stream)
    message = client.expect_message(BasicDeliver)
    assert (message.method.exchange, message.method.routing_key, message.body) == (exchange, "any", b"0")
    assert message.properties.delivery_mode == 1


def test_deleting_ends_the_consumers(client: Client, declare: Made) -> None:
    """It says that there were no messages, however many."""
    stream = declare()
    fill(client, stream, b"0")
    read_from(client, stream)
    delivered(client, 1)
    client.open_channel(2)
    assert client.ask(queue_delete(stream), channel=2) == QueueDeleteOk(0)
    assert client.expect(BasicCancel) == BasicCancel("t", True)
    client.send(ack(1))
    client.ask(prefetch(1))


@differs("RabbitMQ counts every five seconds, and no consumers; Leveret says what is there")
def test_counts_of_a_declaration(connect: Connect, client: Client, stream: str) -> None:
    fill(client, stream, *numbered(3))
    read_from(connect(), stream)
    assert client.ask(queue_declare(stream, passive=True)) == QueueDeclareOk(stream, 0, 0)


@differs("RabbitMQ deletes a stream whatever the conditions are; Leveret keeps to them, as with other queues")
def test_conditions_of_deleting(client: Client, stream: str) -> None:
    fill(client, stream, b"0")
    assert client.ask(queue_delete(stream, if_empty=True)) == QueueDeleteOk(0)


# What is kept


@pytest.mark.parametrize(
    ("limit", "count", "kept_from", "asked"), [(5_000, 100, range(60, 93), 3), (0, 30, range(20, 30), "first")]
)
def test_the_oldest_segments_go_when_the_stream_is_too_long(
    client: Client, declare: Made, limit: int, count: int, kept_from: range, asked: Any
) -> None:
    """Whole segments are left, within the limit; the last one never goes."""
    stream = declare(max_length_bytes=limit, stream_max_segment_size_bytes=1_000)
    fill(client, stream, *(b"%99d" % number for number in range(count)))
    eventually(lambda: first_kept(client, stream) >= kept_from[0], "the first segments to go")
    read_from(client, stream, asked)
    first = int(client.expect_message(BasicDeliver).body)
    assert first in kept_from
    assert [int(body) for _, body in delivered(client, count - 1 - first)] == list(range(first + 1, count))


def first_kept(client: Client, stream: str) -> int:
    """The offset of the first message there is."""
    client.open_channel(60)
    client.ask(prefetch(1), channel=60)
    client.ask(consume(stream, "probe", arguments={"x-stream-offset": "first"}), channel=60)
    offset = offset_of(client.expect_message(BasicDeliver, channel=60))
    client.close_channel(60)
    return offset


# Filters


def filtered(value: str | None) -> BasicProperties:
    return BasicProperties(headers=None if value is None else from_python({"x-stream-filter-value": value}))


@pytest.fixture
def mixed(client: Client, stream: str) -> str:
    """A stream with filter values a, b, c, none, and the same again."""
    for value in ("a", "b", "c", None) * 2:
        fill(client, stream, (value or "-").encode(), properties=filtered(value))
    return stream


@YOUNGER
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"stream_filter": "a"}, [0, 4]),
        ({"stream_filter": ["a", "c"]}, [0, 2, 4, 6]),
        ({"stream_filter": "a", "stream_match_unfiltered": True}, [0, 3, 4, 7]),
        ({"stream_filter": "a", "stream_match_unfiltered": False}, [0, 4]),
        ({"stream_match_unfiltered": True}, list(range(8))),
        ({"stream_filter": 3}, list(range(8))),
        ({"stream_filter": []}, []),
    ],
    ids=str,
)
def test_filters(client: Client, mixed: str, arguments: dict[str, Any], expected: list[int]) -> None:
    """RabbitMQ 3.13, documentation of streams, filtering; there a chunk passes whole, here each message is looked at."""
    read_from(client, mixed, **arguments)
    assert [offset for offset, _ in delivered(client, len(expected))] == expected
    client.ask(BasicCancel("t", False))
    assert client.arrived() == []
