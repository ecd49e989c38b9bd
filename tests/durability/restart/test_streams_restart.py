"""Streams after a stop and after a kill: the same messages at the same offsets, and on from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import BasicAck, BasicDeliver, BasicPublish, ConfirmSelect, QueueDeclareOk
from broker.wire.properties import BasicProperties, encode_header
from harness.brokers.broker_process import BrokerProcess
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import deposit
from harness.clients.shorthand import ack, consume, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow


def declare(client: Client, stream: str, **arguments: Any) -> QueueDeclareOk:
    table = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    answer: QueueDeclareOk = client.ask(
        queue_declare(stream, durable=True, arguments={"x-queue-type": "stream", **table})
    )
    return answer


def read(client: Client, stream: str, offset: Any, count: int) -> list[tuple[int, bytes]]:
    """So many messages from an offset on, read on a channel of its own: offset and body of each."""
    client.open_channel(7)
    client.ask(prefetch(count), channel=7)
    client.ask(consume(stream, arguments={"x-stream-offset": offset}), channel=7)
    messages = [client.expect_message(BasicDeliver, channel=7) for _ in range(count)]
    client.close_channel(7)
    return [((message.properties.headers or {})["x-stream-offset"].value, message.body) for message in messages]


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def test_offsets_last(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ's documentation of streams: an offset is a message's for good. Transient messages last as well."""
    client = dial()
    declare(client, "s")
    deposit(client, *numbered(0, 600), key="s", properties=PERSISTENT)
    deposit(client, *numbered(600, 1000), key="s", properties=BasicProperties(delivery_mode=1))
    client = reborn()
    assert declare(client, "s").message_count == 1000
    assert read(client, "s", "first", 1000) == list(enumerate(numbered(0, 1000)))
    deposit(client, *numbered(1000, 1100), key="s")
    client = reborn()
    assert read(client, "s", 990, 110) == list(enumerate(numbered(990, 1100), 990))


def test_a_consumer_goes_on_where_it_was(dial: Dial, reborn: Dial) -> None:
    """It names the offset: acks are no memory."""
    client = dial()
    declare(client, "s")
    deposit(client, *numbered(0, 10), key="s")
    client.ask(prefetch(4))
    client.ask(consume("s", "t", arguments={"x-stream-offset": "first"}))
    seen = [client.expect_message(BasicDeliver).body for _ in range(4)]
    client.send(ack(0, multiple=True))
    seen += [client.expect_message(BasicDeliver).body for _ in range(4)]
    client = reborn()
    assert seen + [body for _, body in read(client, "s", len(seen), 2)] == numbered(0, 10)


def test_what_went_stays_gone(dial: Dial, reborn: Dial) -> None:
    """The beginning of the stream, and the segments that go next, are as they were."""
    client = dial()
    declare(client, "s", max_length_bytes=10_000, stream_max_segment_size_bytes=1_000)
    deposit(client, *(b"%0100d" % number for number in range(500)), key="s")
    (first, body), *_ = read(client, "s", 0, 1)
    assert first == int(body) > 400
    client = reborn()
    assert read(client, "s", 0, 1) == [(first, body)]
    assert declare_again(client).message_count == 500 - first
    deposit(client, *(b"%0100d" % number for number in range(500, 600)), key="s")
    (later, body), *_ = read(client, "s", 0, 1)
    assert later == int(body) > 500
    assert [offset for offset, _ in read(client, "s", later, 600 - later)] == list(range(later, 600))


def declare_again(client: Client) -> QueueDeclareOk:
    answer: QueueDeclareOk = client.ask(queue_declare("s", passive=True))
    return answer


def test_a_deleted_stream_begins_anew(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client, "s")
    deposit(client, *numbered(0, 5), key="s")
    client.ask(queue_delete("s"))
    declare(client, "s")
    deposit(client, b"new", key="s")
    client = reborn()
    assert read(client, "s", "first", 1) == [(0, b"new")]


def test_killed_while_publishing(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """What was confirmed is there; what a reader has seen keeps its offset; offsets have no holes."""
    client, reader = dial(), dial()
    declare(client, "s", stream_max_segment_size_bytes=2_000)
    seen: dict[int, bytes] = {}
    published = 0
    for _ in range(4):
        client.ask(ConfirmSelect(False))
        reader.ask(prefetch(10_000))
        reader.ask(consume("s", "t", arguments={"x-stream-offset": len(seen)}))
        published, confirmed = flood(client, published, 400)
        while len(seen) < confirmed - 50:
            message = reader.expect_message(BasicDeliver)
            seen[(message.properties.headers or {})["x-stream-offset"].value] = message.body
        fresh_broker.kill()
        fresh_broker.start()
        client, reader = dial(), dial()
        count = declare_again(client).message_count
        assert count >= confirmed
        found = dict(read(client, "s", "first", count))
        assert list(found) == list(range(count))
        assert all(found[offset] == body for offset, body in seen.items())
        assert [int(body) for body in found.values()] == sorted({int(body) for body in found.values()})
        published = int(found[count - 1]) + 1


def flood(client: Client, first: int, count: int) -> tuple[int, int]:
    """Publish numbered messages in one write and await half of the confirms: numbers given, messages confirmed."""
    writes = [
        method_frame(1, BasicPublish("", "s", False, False)) + content_frames(1, encode_header(len(body)), body, 131072)
        for body in numbered(first, first + count)
    ]
    client.send_raw(b"".join(writes))
    confirmed = 0
    while confirmed < count // 2:
        answer = client.expect(BasicAck)
        confirmed = max(confirmed, answer.delivery_tag)
    return first + count, first + confirmed
