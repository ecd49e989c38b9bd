"""Queues far longer than what the broker keeps in memory: order, restarts, purge and requeue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import BasicAck, BasicDeliver, BasicPublish, ConfirmSelect, QueueDeclareOk, QueuePurge
from broker.wire.properties import encode_header
from harness.brokers.broker_process import BrokerProcess
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT, TRANSIENT
from harness.clients.shorthand import ack, consume, nack, prefetch, queue_declare
from harness.clients.wire_client import Client
from harness.waiting import eventually

Dial = Callable[[], Client]
pytestmark = pytest.mark.slow

COUNT = 50_000
BODY_BYTES = 1024
BURST = 1000
FRAME_BYTES = 4096
"""Any frame size will do for bodies this small."""


def body(number: int) -> bytes:
    return b"%08d" % number + b"." * (BODY_BYTES - 8)


def is_transient(number: int) -> bool:
    """One message in five, in runs of one and of two."""
    return number % 15 in (3, 7, 8)


def fill(client: Client, queue: str, numbers: range, *, mixed: bool = False) -> None:
    """Publish with confirms, a burst at a time."""
    client.open_channel(9)
    client.ask(ConfirmSelect(False), channel=9)
    method = method_frame(9, BasicPublish("", queue, False, False))
    headers = {mode: encode_header(BODY_BYTES, properties) for mode, properties in ((2, PERSISTENT), (1, TRANSIENT))}
    sent = confirmed = 0
    for start in range(numbers.start, numbers.stop, BURST):
        burst = range(start, min(start + BURST, numbers.stop))
        modes = [1 if mixed and is_transient(number) else 2 for number in burst]
        contents = (
            content_frames(9, headers[mode], body(number), FRAME_BYTES)
            for mode, number in zip(modes, burst, strict=True)
        )
        client.send_raw(b"".join(method + content for content in contents))
        sent += len(burst)
        outstanding = set(range(confirmed + 1, sent + 1))
        while outstanding:
            item = client.expect(BasicAck, channel=9)
            tag = item.delivery_tag
            outstanding -= set(range(confirmed + 1, tag + 1)) if item.multiple else {tag}
        confirmed = sent
    client.close_channel(9)


def consumed(client: Client, queue: str, count: int, *, window: int = 2000) -> Iterator[Message]:
    """Take so many messages with acknowledgements, half a window at a time."""
    client.ask(prefetch(window))
    client.ask(consume(queue, "drain"))
    for index in range(1, count + 1):
        message = client.expect_message(BasicDeliver)
        if index % (window // 2) == 0 or index == count:
            client.send(ack(message.method.delivery_tag, multiple=True))
        yield message


def sequence(messages: Iterator[Message]) -> list[int]:
    """The numbers in the bodies, each body whole."""
    numbers = []
    for message in messages:
        number = int(message.body[:8])
        assert message.body == body(number)
        numbers.append(number)
    return numbers


def expect_empty(client: Client, queue: str) -> None:
    eventually(lambda: client.ask(queue_declare(queue, passive=True)).message_count == 0, f"{queue} to be empty")


def depart(reader: Client, other: Client, queue: str) -> None:
    """End a connection so that all it has said was heard: a socket that is dropped with contents unread says less."""
    reader.finish()
    eventually(lambda: other.ask(queue_declare(queue, passive=True)).consumer_count == 0, "the reader to be gone")


def test_a_long_queue_is_drained_in_order(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Transient and persistent messages mixed; filled, drained in part, filled further, drained to the end."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    fill(client, "q", range(COUNT), mixed=True)
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", COUNT, 0)
    reader = dial()
    assert sequence(consumed(reader, "q", 20_000)) == list(range(20_000))
    depart(reader, client, "q")
    fill(client, "q", range(COUNT, COUNT + 5000))
    assert sequence(consumed(dial(), "q", COUNT - 15_000)) == list(range(20_000, COUNT + 5000))
    expect_empty(client, "q")


def test_a_long_queue_is_drained_in_order_after_a_restart(dial: Dial, reborn: Dial) -> None:
    """The persistent ones come back, those that were already acknowledged do not."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    fill(client, "q", range(COUNT), mixed=True)
    reader = dial()
    assert sequence(consumed(reader, "q", 10_000)) == list(range(10_000))
    depart(reader, client, "q")
    fill(client, "q", range(COUNT, COUNT + 1))
    client = reborn()
    left = [number for number in range(10_000, COUNT) if not is_transient(number)] + [COUNT]
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", len(left), 0)
    assert sequence(consumed(client, "q", len(left))) == left
    expect_empty(client, "q")


def test_a_long_queue_is_purged(dial: Dial, reborn: Dial) -> None:
    """What was paged out goes with the rest, and stays away; new messages are not touched by it."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    fill(client, "q", range(20_000), mixed=True)
    assert client.ask(QueuePurge("q", False)).message_count == 20_000
    fill(client, "q", range(20_000, 20_010))
    client = reborn()
    assert client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 10, 0)
    assert sequence(consumed(client, "q", 10)) == list(range(20_000, 20_010))


def test_requeueing_many_at_once_keeps_the_order(fresh_broker: BrokerProcess, dial: Dial) -> None:
    """Ten thousand unacknowledged messages put back by one nack, and again by the end of their connection."""
    client = dial()
    client.ask(queue_declare("q", durable=True))
    fill(client, "q", range(15_000), mixed=True)
    reader = dial()
    reader.ask(prefetch(10_000))
    reader.ask(consume("q", "held"))
    held = [reader.expect_message(BasicDeliver) for _ in range(10_000)]
    assert sequence(iter(held)) == list(range(10_000))
    reader.send(nack(held[-1].method.delivery_tag, multiple=True))
    again = [reader.expect_message(BasicDeliver) for _ in range(10_000)]
    assert sequence(iter(again)) == list(range(10_000))
    assert all(message.method.redelivered for message in again)
    reader.close()
    eventually(
        lambda: client.ask(queue_declare("q", passive=True)) == QueueDeclareOk("q", 15_000, 0), "everything requeued"
    )
    drained = list(consumed(client, "q", 15_000))
    assert sequence(iter(drained)) == list(range(15_000))
    assert [message.method.redelivered for message in drained] == [number < 10_000 for number in range(15_000)]
