"""Streams over AMQP 0-9-1: declaring them, reading them from a place of one's own, what is refused, what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
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
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_declare,
    exchange_delete,
    get,
    prefetch,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
Connect = Callable[..., Client]
Declare = Callable[..., str]

STREAM = {"x-queue-type": "stream"}
YOUNGER = pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ has it since 3.13")


@pytest.fixture
def declare(connect: Connect, name: Name) -> Iterator[Declare]:
    """A function that declares a stream; `max_age="1h"` is the argument x-max-age. All are deleted at the end."""
    client, made = connect(), []

    def declared(**arguments: Any) -> str:
        table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        made.append(name("stream"))
        client.ask(queue_declare(made[-1], durable=True, arguments={**STREAM, **table}))
        return made[-1]

    yield declared
    for stream in made:
        client.ask(queue_delete(stream))


@pytest.fixture
def stream(declare: Declare) -> str:
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
    """Consume with the tag `t`, from an offset on; `offset` may be a Field."""
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    fields = {**from_python(table), "x-stream-offset": offset if isinstance(offset, Field) else _field(offset)}
    client.ask(prefetch(credit))
    client.send(BasicConsume(stream, "t", False, False, False, False, fields))
    client.expect(BasicConsumeOk)


def _field(value: Any) -> Field:
    return from_python({"offset": value})["offset"]


def offset_of(message: Message) -> int:
    """Its place in the stream, as the broker says."""
    field = (message.properties.headers or {})["x-stream-offset"]
    assert field.kind == "l"
    return int(field.value)


def delivered(client: Client, count: int) -> list[tuple[int, bytes]]:
    """Await so many deliveries: offset and body of each."""
    messages = [client.expect_message(BasicDeliver) for _ in range(count)]
    return [(offset_of(message), message.body) for message in messages]


def numbered(first: int, end: int) -> list[tuple[int, bytes]]:
    """Offsets and bodies of a stream that was filled with `bodies`."""
    return [(number, b"%d" % number) for number in range(first, end)]


def bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# Declaring


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-age": "1Y"},
        {"x-max-age": "2M"},
        {"x-max-age": "3D"},
        {"x-max-age": "4h"},
        {"x-max-age": "5m"},
        {"x-max-age": "6s"},
        {"x-max-length-bytes": 0},
        {"x-stream-max-segment-size-bytes": 3_000_000_000},
        {"x-initial-cluster-size": 1},
        {"x-queue-leader-locator": "client-local"},
        {"x-stream-filter-size-bytes": 16},
        {"x-unknown": 1},
    ],
    ids=str,
)
def test_arguments_that_are_accepted(client: Client, name: Name, arguments: dict[str, Any]) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    stream = name()
    method = queue_declare(stream, durable=True, arguments={**STREAM, **arguments})
    assert client.ask(method) == QueueDeclareOk(stream, 0, 0)
    assert client.ask(method) == QueueDeclareOk(stream, 0, 0)
    assert client.ask(queue_delete(stream)) == QueueDeleteOk(0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-max-age": "1x"}, "invalid arg 'x-max-age' {q}: invalid_max_age"),
        ({"x-max-age": "0s"}, "invalid arg 'x-max-age' {q}: invalid_max_age"),
        ({"x-max-age": "1.5h"}, "invalid arg 'x-max-age' {q}: invalid_max_age"),
        ({"x-max-age": "1h2m"}, "invalid arg 'x-max-age' {q}: invalid_max_age"),
        ({"x-max-age": "2"}, "invalid arg 'x-max-age' {q}: invalid_max_age"),
        ({"x-max-age": 5}, "invalid arg 'x-max-age' {q}: {{unacceptable_type,signedint}}"),
        ({"x-max-length-bytes": -1}, "invalid arg 'x-max-length-bytes' {q}: {{value_negative,-1}}"),
        ({"x-stream-max-segment-size-bytes": -1},
         "invalid arg 'x-stream-max-segment-size-bytes' {q}: {{value_negative,-1}}"),
        ({"x-stream-max-segment-size-bytes": "a"},
         "invalid arg 'x-stream-max-segment-size-bytes' {q}: \"expected integer, got longstr\""),
        ({"x-stream-max-segment-size-bytes": 3_000_000_001},
         "Exceeded max value for x-stream-max-segment-size-bytes"),
        ({"x-initial-cluster-size": 0}, "invalid arg 'x-initial-cluster-size' {q}: {{value_zero,0}}"),
        ({"x-queue-leader-locator": "foo"}, "invalid arg 'x-queue-leader-locator' {q}: invalid_queue_locator_arg"),
        *(
            ({argument: value}, f"invalid arg '{argument}' {{q}} of queue type rabbit_stream_queue")
            for argument, value in {
                "x-max-length": 10,
                "x-message-ttl": 1,
                "x-expires": 1000,
                "x-dead-letter-exchange": "a",
                "x-overflow": "drop-head",
                "x-max-priority": 1,
                "x-single-active-consumer": True,
                "x-queue-mode": "lazy",
                "x-delivery-limit": 1,
                "x-quorum-initial-group-size": 1,
            }.items()
        ),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_that_are_refused(client: Client, name: Name, arguments: dict[str, Any], text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    stream = name()
    where = f"for queue '{stream}' in vhost '/'"
    assert client.refusal(queue_declare(stream, durable=True, arguments={**STREAM, **arguments})) == (
        f"channel 406 PRECONDITION_FAILED - {text.format(q=where)}"
    )


@pytest.mark.parametrize(
    ("flags", "property_"),
    [
        ({}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
    ],
    ids=str,
)
def test_a_stream_lasts(client: Client, name: Name, flags: dict[str, bool], property_: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    stream = name()
    assert client.refusal(queue_declare(stream, **flags, arguments=STREAM)) == (
        f"channel 406 PRECONDITION_FAILED - invalid property '{property_}' for queue '{stream}' in vhost '/'"
    )


def test_a_stream_is_named_by_its_client(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(queue_declare("", durable=True, arguments=STREAM)) == (
        "channel 406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue"
    )


@pytest.mark.parametrize(
    ("was", "now", "argument", "text"),
    [
        ({}, {"x-max-age": "1h"}, "x-max-age", "received the value '1h' of type 'longstr' but current is none"),
        ({"x-max-age": "1h"}, {"x-max-age": "60m"}, "x-max-age", "received '60m' but current is '1h'"),
        ({"x-max-length-bytes": 5}, {"x-max-length-bytes": 6}, "x-max-length-bytes", "received '6' but current is '5'"),
        ({}, {"x-stream-max-segment-size-bytes": 6}, "x-stream-max-segment-size-bytes",
         "received the value '6' of type 'signedint' but current is none"),
        ({}, {"x-queue-type": "classic"}, "x-queue-type", "received 'classic' but current is 'stream'"),
        ({}, {"x-queue-type": None}, "x-queue-type",
         "received none but current is the value 'stream' of type 'longstr'"),
    ],
    ids=str,
)  # fmt: skip
def test_another_declaration_must_agree(
    client: Client, declare: Declare, was: dict[str, Any], now: dict[str, Any], argument: str, text: str
) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    stream = declare(**{key[2:]: value for key, value in was.items()})
    again = {key: value for key, value in {**STREAM, **now}.items() if value is not None}
    assert client.refusal(queue_declare(stream, durable=True, arguments=again)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{stream}' in vhost '/': {text}"
    )


def test_what_other_types_know_is_not_compared(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: a second declaration may name what a first one may not."""
    for arguments in ({"x-message-ttl": 5}, {"x-max-length": 5}, {"x-unknown": 1}):
        client.ask(queue_declare(stream, durable=True, arguments={**STREAM, **arguments}))


def test_a_classic_queue_does_not_become_a_stream(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue, durable=True))
    assert client.refusal(queue_declare(queue, durable=True, arguments=STREAM)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{queue}' in vhost '/': "
        "received the value 'stream' of type 'longstr' but current is none"
    )
    client.ask(queue_delete(queue))


# Reading


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0),
        ("last", 4),
        ("next", 5),
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
    """RabbitMQ 3.10.8 on the wire."""
    fill(client, stream, *bodies(5))
    read_from(client, stream, offset)
    assert delivered(client, 5 - first) == numbered(first, 5)
    fill(client, stream, b"5")
    assert delivered(client, 1) == [(5, b"5")]


def test_reading_begins_at_what_is_new_if_nobody_says_where(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    fill(client, stream, *bodies(2))
    client.ask(prefetch(10))
    client.ask(consume(stream))
    fill(client, stream, b"2")
    assert delivered(client, 1) == [(2, b"2")]


def test_an_offset_that_is_still_to_come_is_waited_for(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    fill(client, stream, b"0")
    read_from(client, stream, 3)
    fill(client, stream, b"1", b"2", b"3", b"4")
    assert delivered(client, 2) == numbered(3, 5)


def test_reading_an_empty_stream(connect: Connect, client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: wherever it begins, the first message is the first."""
    for offset in ("first", "last", "next", 0, "1h"):
        stream, reader = declare(), connect()
        read_from(reader, stream, offset)
        fill(client, stream, b"0")
        assert delivered(reader, 1) == [(0, b"0")]


@pytest.mark.parametrize("offset", ["1x", "5", "0s"])
def test_offsets_that_are_none(client: Client, stream: str, offset: str) -> None:
    """RabbitMQ 3.10.8 on the wire; looked at before the prefetch."""
    assert client.refusal(consume(stream, arguments={"x-stream-offset": offset})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/': "
        f'{{invalid_stream_offset_arg,{{longstr,<<"{offset}">>}}}}'
    )


@pytest.mark.parametrize("offset", ["foo", "", "-1", True, 1.5, None, [1]], ids=str)
@differs("RabbitMQ 3.10.8 crashes over them; newer ones answer as they do to other values")
def test_offsets_that_rabbitmq_crashes_over(client: Client, stream: str, offset: Any) -> None:
    """RabbitMQ 3.10.8 on the wire: 541."""
    client.ask(prefetch(5))
    client.send(consume(stream, arguments={"x-stream-offset": offset}))
    assert client.closing() == "connection 541 INTERNAL_ERROR"


def test_the_offset_is_a_header(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: among the message's own headers, in their order; a publisher's own gives way."""
    everything = BasicProperties(
        content_type="ct",
        content_encoding="ce",
        headers=from_python({"zz": "z", "aa": "a", "x-stream-offset": 99}),
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="1000",
        message_id="m",
        timestamp=123456,
        type="t",
        user_id="guest",
        app_id="a",
    )
    fill(client, stream, b"0")
    fill(client, stream, b"1", properties=everything)
    read_from(client, stream)
    plain, full = (client.expect_message(BasicDeliver) for _ in range(2))
    assert plain.properties == BasicProperties(headers={"x-stream-offset": Field("l", 0)})
    headers = full.properties.headers or {}
    assert list(headers.items()) == [
        ("aa", Field("S", b"a")),
        ("x-stream-offset", Field("l", 1)),
        ("zz", Field("S", b"z")),
    ]
    changed = everything._replace(headers=None, delivery_mode=None)
    assert full.properties._replace(headers=None, delivery_mode=None) == changed
    assert [message.method for message in (plain, full)] == [
        BasicDeliver("t", tag, False, "", stream) for tag in (1, 2)
    ]


def test_bodies_of_all_sizes(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    sizes = (0, 1, 131_064, 131_065, 400_000)
    fill(client, stream, *(b"x" * size for size in sizes))
    read_from(client, stream)
    assert [len(body) for _, body in delivered(client, len(sizes))] == list(sizes)


def test_every_consumer_reads_for_itself(connect: Connect, client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: nothing is consumed away, nor ever redelivered."""
    fill(client, stream, *bodies(3))
    for _ in range(2):
        reader = connect()
        read_from(reader, stream)
        messages = [reader.expect_message(BasicDeliver) for _ in range(3)]
        assert [message.body for message in messages] == bodies(3)
        assert not any(message.method.redelivered for message in messages)
        reader.send(ack(2, multiple=True))
        reader.close_channel()


def test_credit(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: so many unacknowledged as the prefetch says; an ack makes room for one more."""
    fill(client, stream, *bodies(6))
    read_from(client, stream, credit=2)
    assert delivered(client, 2) == numbered(0, 2)
    client.send(ack(2))
    assert delivered(client, 1) == numbered(2, 3)
    client.send(ack(3, multiple=True))
    assert delivered(client, 2) == numbered(3, 5)
    client.ask(BasicCancel("t", False))
    assert client.arrived() == []


def test_two_consumers_of_one_channel(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: the prefetch of each is its own."""
    fill(client, stream, *bodies(5))
    client.ask(prefetch(2))
    client.ask(consume(stream, "a", arguments={"x-stream-offset": 3}))
    messages = [client.expect_message(BasicDeliver) for _ in range(2)]
    assert [(message.method.consumer_tag, offset_of(message)) for message in messages] == [("a", 3), ("a", 4)]
    client.ask(consume(stream, "b", arguments={"x-stream-offset": "first"}))
    messages = [client.expect_message(BasicDeliver) for _ in range(2)]
    assert [(message.method.consumer_tag, offset_of(message)) for message in messages] == [("b", 0), ("b", 1)]
    client.send(ack(0, multiple=True))
    messages = [client.expect_message(BasicDeliver) for _ in range(2)]
    assert [(message.method.consumer_tag, offset_of(message)) for message in messages] == [("b", 2), ("b", 3)]


def test_exclusive_consumers_are_not_alone(connect: Connect, client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: the flag means nothing."""
    fill(client, stream, b"0")
    for reader in (connect(), connect()):
        reader.ask(prefetch(5))
        reader.ask(consume(stream, exclusive=True, arguments={"x-stream-offset": "first"}))
        assert delivered(reader, 1) == [(0, b"0")]


# Refusals


@pytest.mark.parametrize(
    ("method", "what"),
    [
        (get, "basic.get not supported by stream queues {q}"),
        (lambda stream: QueuePurge(stream, False), "queue.purge not supported by stream queues {q}"),
        (lambda stream: consume(stream, no_ack=True), "automatic acknowledgement not supported by stream queues {q}"),
    ],
    ids=["get", "purge", "no-ack"],
)
def test_what_streams_do_not_do(client: Client, stream: str, method: Callable[[str], Any], what: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.ask(prefetch(5))
    where = f"queue '{stream}' in vhost '/'"
    assert client.refusal(method(stream)) == f"connection 540 NOT_IMPLEMENTED - {what.format(q=where)}"


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_consumer_needs_a_prefetch(client: Client, stream: str, no_ack: bool) -> None:
    """RabbitMQ 3.10.8 on the wire, quotation marks and all."""
    assert client.refusal(consume(stream, no_ack=no_ack)) == (
        f"channel 406 PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{stream}' in vhost '/''"
    )


def test_a_prefetch_of_the_channel_is_none(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.ask(prefetch(5, of_channel=True))
    assert client.refusal(consume(stream)) == (
        f"channel 406 PRECONDITION_FAILED - consumer prefetch count is not set for 'queue '{stream}' in vhost '/''"
    )
    client.ask(prefetch(5))
    client.ask(prefetch(5, of_channel=True))
    assert client.refusal(consume(stream)) == (
        f"connection 540 NOT_IMPLEMENTED - queue '{stream}' in vhost '/' does not support global qos"
    )


@pytest.mark.parametrize(
    ("argument", "value"), [("x-priority", 3), ("x-priority", "a"), ("x-cancel-on-ha-failover", True)]
)
def test_arguments_of_consumers_of_queues(client: Client, stream: str, argument: str, value: object) -> None:
    """RabbitMQ 3.10.8 on the wire; looked at before the prefetch."""
    assert client.refusal(consume(stream, arguments={argument: value})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg '{argument}' for queue '{stream}' in vhost '/' "
        "of queue type rabbit_stream_queue"
    )


def test_a_classic_queue_has_no_offsets(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = client.ask(queue_declare(name(), exclusive=True)).queue
    assert client.refusal(consume(queue, arguments={"x-stream-offset": "first"})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/' "
        "of queue type rabbit_classic_queue"
    )


@pytest.mark.parametrize(
    "method", [BasicNack(1, False, True), BasicNack(1, False, False), BasicReject(1, True), BasicReject(1, False)]
)
def test_nothing_is_given_back(client: Client, stream: str, method: Any) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    fill(client, stream, b"0")
    read_from(client, stream)
    delivered(client, 1)
    assert client.refusal(method) == (
        "connection 540 NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues "
        f"queue '{stream}' in vhost '/'"
    )


def test_classic_deliveries_come_back_when_a_stream_refuses(connect: Connect, stream: str, name: Name) -> None:
    """What was to be given back along with a stream's delivery is not lost with the connection."""
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
    """RabbitMQ 3.10.8 on the wire: 541."""
    fill(client, stream, b"0")
    read_from(client, stream)
    delivered(client, 1)
    client.send(BasicRecover(True))
    assert client.closing() == "connection 541 INTERNAL_ERROR"


# Publishing, counting, deleting


def test_publishing_through_an_exchange(client: Client, stream: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name()
    client.ask(exchange_declare(exchange, "fanout"))
    client.ask(queue_bind(stream, exchange))
    client.ask(ConfirmSelect(False))
    client.publish(b"0", exchange=exchange, key="any", mandatory=True)
    client.expect(BasicAck)
    read_from(client, stream)
    message = client.expect_message(BasicDeliver)
    assert (message.method.exchange, message.method.routing_key, message.body) == (exchange, "any", b"0")
    client.ask(exchange_delete(exchange))


def test_transient_messages_are_kept_too(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire: a stream has them like any other, and says what they were."""
    fill(client, stream, b"0", properties=BasicProperties(delivery_mode=1))
    read_from(client, stream)
    assert client.expect_message(BasicDeliver).properties.delivery_mode == 1


def test_deleting_ends_the_consumers(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: and says that there were no messages, however many."""
    stream = declare()
    fill(client, stream, b"0")
    read_from(client, stream)
    delivered(client, 1)
    assert client.ask(queue_delete(stream), channel=client_channel(client)) == QueueDeleteOk(0)
    assert client.expect(BasicCancel) == BasicCancel("t", True)
    client.send(ack(1))
    client.ask(prefetch(1))


def client_channel(client: Client) -> int:
    """A second channel of the same connection."""
    client.open_channel(2)
    return 2


@differs("RabbitMQ counts every five seconds, and no consumers; Leveret says what is there")
def test_counts_of_a_declaration(connect: Connect, client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    fill(client, stream, *bodies(3))
    read_from(connect(), stream)
    assert client.ask(queue_declare(stream, passive=True)) == QueueDeclareOk(stream, 0, 0)


@differs("RabbitMQ deletes a stream whatever the conditions are; Leveret keeps to them, as with other queues")
def test_conditions_of_deleting(client: Client, stream: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    fill(client, stream, b"0")
    assert client.ask(queue_delete(stream, if_empty=True)) == QueueDeleteOk(0)


# What is kept


def test_the_oldest_segments_go_when_the_stream_is_too_long(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: what is left is whole segments, within the limit or the last one."""
    stream = declare(max_length_bytes=5_000, stream_max_segment_size_bytes=1_000)
    fill(client, stream, *(b"%99d" % number for number in range(100)))
    until(lambda: first_kept(client, stream) >= 60)
    read_from(client, stream, 3)
    first = int(client.expect_message(BasicDeliver).body)
    assert 60 <= first <= 92
    assert [int(body) for _, body in delivered(client, 99 - first)] == list(range(first + 1, 100))


def test_the_last_segment_never_goes(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    stream = declare(max_length_bytes=0, stream_max_segment_size_bytes=1_000)
    fill(client, stream, *(b"%99d" % number for number in range(30)))
    until(lambda: first_kept(client, stream) >= 20)
    read_from(client, stream)
    first = int(client.expect_message(BasicDeliver).body)
    assert first <= 29
    assert [int(body) for _, body in delivered(client, 29 - first)] == list(range(first + 1, 30))


def first_kept(client: Client, stream: str) -> int:
    """The offset of the first message there is."""
    client.open_channel(60)
    client.ask(prefetch(1), channel=60)
    client.ask(consume(stream, "probe", arguments={"x-stream-offset": "first"}), channel=60)
    offset = offset_of(client.expect_message(BasicDeliver, channel=60))
    client.close_channel(60)
    return offset


def until(condition: Callable[[], bool]) -> None:
    """RabbitMQ lets segments go a moment after they were closed."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


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
