"""Queues with priorities come back: order, marks and counts of every level, in order stopped or killed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    ConfirmSelect,
    QueueDeclareOk,
    QueuePurge,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow

HIGHEST = 4
FRAME_BYTES = 4096
WINDOW_MESSAGES = 4096


def level_of(number: int) -> int:
    """A priority, now and then one beyond the highest."""
    return number * 7 % (HIGHEST + 2)


def in_order(numbers: range | list[int]) -> list[bytes]:
    return [b"%d" % number for number in sorted(numbers, key=lambda number: -min(level_of(number), HIGHEST))]


def declare(client: Client, queue: str = "q", **arguments: object) -> QueueDeclareOk:
    table = {"x-max-priority": HIGHEST} | {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    answer: QueueDeclareOk = client.ask(queue_declare(queue, durable=True, arguments=table))
    return answer


def fill(client: Client, numbers: range, *, delivery_mode: int = 2, queue: str = "q") -> None:
    """Publish in one write, and wait until all is confirmed."""
    client.open_channel(9)
    client.ask(ConfirmSelect(False), channel=9)
    frames = []
    for number in numbers:
        body = b"%d" % number
        header = encode_header(len(body), BasicProperties(priority=level_of(number), delivery_mode=delivery_mode))
        frames.append(method_frame(9, BasicPublish("", queue, False, False)))
        frames.append(content_frames(9, header, body, FRAME_BYTES))
    client.send_raw(b"".join(frames))
    waiting = set(range(1, len(numbers) + 1))
    while waiting:
        answer = client.expect(BasicAck, channel=9)
        waiting -= {tag for tag in waiting if tag <= answer.delivery_tag} if answer.multiple else {answer.delivery_tag}
    client.close_channel(9)


def flush(client: Client) -> None:
    """What the connection settled before is on disk when something later is confirmed."""
    client.ask(queue_declare("flushed", durable=True))
    deposit(client, b"", key="flushed", properties=BasicProperties(delivery_mode=2))


def test_order_outlasts_restarts(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client)
    fill(client, range(300))
    client = reborn()
    assert declare(client) == QueueDeclareOk("q", 300, 0)
    fill(client, range(300, 400))
    client = reborn()
    assert drain(client, "q") == in_order(range(400))
    flush(client)
    client = reborn()
    assert declare(client) == QueueDeclareOk("q", 0, 0)


def test_marks_are_those_of_each_level(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ 3.10.8 after a restart: what was not delivered is not marked, whatever was published behind it."""
    client = dial()
    declare(client)
    fill(client, range(30))
    for _ in range(12):
        client.send(get("q"))
    tags = [client.expect_message(BasicGetOk).method.delivery_tag for _ in range(12)]
    client.send(ack(tags[0]))
    client.send(nack(tags[1]))
    flush(client)
    client = reborn()
    found = [(message.body, message.method.redelivered) for message in drain_messages(client, "q")]
    order = in_order(range(30))
    assert found == [(body, place < 12) for place, body in enumerate(order) if place != 0]


def test_far_beyond_the_window(dial: Dial, reborn: Dial) -> None:
    """Most of it on disk only, a part of it transient; consumed half before and half after the restart."""
    client = dial()
    declare(client)
    count = 3 * WINDOW_MESSAGES
    fill(client, range(count))
    fill(client, range(count, count + 1000), delivery_mode=1)
    assert declare(client).message_count == count + 1000
    client.open_channel(2)
    client.ask(prefetch(500), channel=2)
    client.ask(consume("q", "c"), channel=2)
    everything, taken = in_order(range(count + 1000)), 7000
    for number in range(taken):
        message = client.expect_message(BasicDeliver, channel=2)
        assert message.body == everything[number]
        if number % 250 == 249:
            client.send(ack(message.method.delivery_tag, multiple=True), channel=2)
    flush(client)
    client = reborn()
    left = [body for body in everything[taken:] if int(body) < count]
    assert declare(client).message_count == len(left)
    assert drain(client, "q") == left


def test_a_purge_and_a_deletion_are_of_all_levels(dial: Dial, reborn: Dial) -> None:
    client = dial()
    declare(client)
    declare(client, "gone")
    fill(client, range(200))
    fill(client, range(200), queue="gone")
    client.send(get("q"))
    first = client.expect_message(BasicGetOk).body
    assert client.ask(QueuePurge("q", False)).message_count == 199
    assert client.ask(queue_delete("gone")).message_count == 200
    fill(client, range(500, 503))
    client = reborn()
    assert declare(client, "gone").message_count == 0
    assert drain(client, "q") == [first, *in_order(range(500, 503))]


def test_dead_letters_and_limits_come_back_in_their_levels(dial: Dial, reborn: Dial) -> None:
    """What was unacknowledged is ready again, and that is too much: the head goes, as RabbitMQ 3.10.8 has it."""
    client = dial()
    declare(client, "dead")
    declare(client, max_length=6, dead_letter_exchange="", dead_letter_routing_key="dead")
    fill(client, range(6))
    for _ in range(2):
        client.send(get("q"))
        client.expect_message(BasicGetOk)
    fill(client, range(6, 8))
    client = reborn()
    eventually(lambda: declare(client, "dead").message_count == 2, "two messages to be dropped")
    everything = in_order(range(8))
    assert drain(client, "q") == everything[2:]
    assert drain(client, "dead") == everything[:2]
