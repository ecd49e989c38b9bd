"""Queues with x-max-priority: what goes first out to consumers, and what goes first when time or room runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.wire.field_tables import Field
from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicRecover,
    BasicRecoverOk,
    ConfirmSelect,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import (
    ack,
    consume,
    get,
    nack,
    prefetch,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually

Name = Callable[..., str]
Declare = Callable[..., str]

FRAME_BYTES = 4096
MIXED = ("a0", "b5", "c3", "d0", "e5", "f0")
"""Bodies that end in the priority they are published with."""


@pytest.fixture
def declare(client: Client, name: Name, connect: Callable[..., Client]) -> Iterator[Declare]:
    """A function that makes a queue with six priorities; `max_length=3` is the argument x-max-length."""
    queues: list[str] = []

    def declared(**arguments: Any) -> str:
        arguments = {"x-" + key.replace("_", "-"): value for key, value in {"max_priority": 5, **arguments}.items()}
        queues.append(name("prio"))
        client.ask(queue_declare(queues[-1], arguments=arguments))
        return queues[-1]

    yield declared
    other = connect()
    for queue in queues:
        other.ask(queue_delete(queue))


def publish(client: Client, queue: str, *bodies: str, **properties: Any) -> None:
    """Put messages into a queue, each with the priority its body ends in; return when they are there."""
    for body in bodies:
        deposit(client, body.encode(), key=queue, properties=prioritized(body, **properties))


def prioritized(body: str, **properties: Any) -> BasicProperties:
    return BasicProperties(priority=int(body[1:]), **properties)


def publish_in_one_write(client: Client, queue: str, *bodies: str) -> None:
    """Publish messages that reach the broker in one piece."""
    frames = b""
    for body in bodies:
        header = encode_header(len(body), prioritized(body))
        frames += method_frame(1, BasicPublish("", queue, False, False))
        frames += content_frames(1, header, body.encode(), FRAME_BYTES)
    client.send_raw(frames)


def taken(client: Client, queue: str) -> list[str]:
    """Take every message out of a queue."""
    return [body.decode() for body in drain(client, queue)]


def delivered(client: Client, count: int) -> list[str]:
    """The next deliveries."""
    return [client.expect_message(BasicDeliver).body.decode() for _ in range(count)]


def counted(client: Client, queue: str) -> int:
    declared: QueueDeclareOk = client.ask(queue_declare(queue, passive=True))
    return declared.message_count


# Order


def test_higher_priorities_come_first_and_equal_ones_in_order(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, *MIXED)
    assert taken(client, queue) == ["b5", "e5", "c3", "a0", "d0", "f0"]


def test_what_lies_beyond_the_highest_counts_as_the_highest(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, "a4", "b9", "c5", "d255", "e6")
    assert taken(client, queue) == ["b9", "c5", "d255", "e6", "a4"]


def test_no_priority_is_the_lowest(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, "a0")
    deposit(client, b"none", key=queue)
    publish(client, queue, "b0", "c1")
    assert taken(client, queue) == ["c1", "a0", "none", "b0"]


@pytest.mark.parametrize("highest", [1, 255])
def test_as_many_levels_as_were_asked_for(client: Client, declare: Declare, highest: int) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare(max_priority=highest)
    publish(client, queue, "a0", f"b{highest - 1}", f"c{highest}")
    assert taken(client, queue)[0] == f"c{highest}"


def test_a_highest_priority_of_nothing_is_a_plain_queue(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare(max_priority=0)
    publish(client, queue, *MIXED)
    assert taken(client, queue) == list(MIXED)


def test_without_the_argument_priorities_mean_nothing(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; the 0-9-1 specification wants two levels at least."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True))
    publish(client, queue, *MIXED)
    assert taken(client, queue) == list(MIXED)


@pytest.mark.parametrize("kind", ["b", "B", "s", "u", "I", "i", "l"])
def test_every_width_of_integer_will_do(client: Client, declare: Declare, kind: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare(max_priority=Field(kind, 3))
    publish(client, queue, "a0", "b3", "c2")
    assert taken(client, queue) == ["b3", "c2", "a0"]


def test_the_property_goes_out_as_it_came(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: a priority beyond the highest is not cut."""
    queue = declare()
    publish(client, queue, "a9")
    assert [message.properties.priority for message in drain_messages(client, queue)] == [9]


def test_another_highest_priority_is_another_queue(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    text = f"channel 406 PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue '{queue}' in vhost '/': "
    wider, plain = queue_declare(queue, arguments={"x-max-priority": 6}), queue_declare(queue)
    assert client.refusal(wider) == text + "received '6' but current is '5'"
    assert client.refusal(plain) == text + "received none but current is the value '5' of type 'signedint'"


# Consumers


def test_a_consumer_gets_the_highest_of_what_waits(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, *MIXED)
    client.ask(prefetch(1))
    client.ask(consume(queue))
    order = []
    for tag in range(1, len(MIXED) + 1):
        order += delivered(client, 1)
        client.send(ack(tag))
    assert order == ["b5", "e5", "c3", "a0", "d0", "f0"]


def test_a_consumer_that_waits_is_given_what_comes_as_it_comes(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: one write with rising priorities to a queue whose consumer has credit."""
    queue = declare()
    client.ask(consume(queue, no_ack=True))
    publish_in_one_write(client, queue, "a0", "b3", "c5", "d1", "e5")
    assert delivered(client, 5) == ["a0", "b3", "c5", "d1", "e5"]


def test_what_is_beyond_the_prefetch_waits_in_the_order_of_priorities(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: the first goes to the consumer that waits, the others queue up."""
    queue = declare()
    client.ask(prefetch(1))
    client.ask(consume(queue))
    publish_in_one_write(client, queue, "a0", "b3", "c5", "d1", "e5")
    order = []
    for tag in range(1, 6):
        order += delivered(client, 1)
        if tag == 1:
            assert eventually(lambda: counted(client, queue) == 4, "the rest to be in the queue")
        client.send(ack(tag))
    assert order == ["a0", "c5", "e5", "b3", "d1"]


def test_requeued_messages_keep_their_places_within_their_priority(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, *MIXED)
    tags = []
    for _ in range(5):
        client.send(get(queue))
        tags.append(client.expect_message(BasicGetOk).method.delivery_tag)
    for index in (4, 0, 2, 1, 3):
        client.send(nack(tags[index]))
    publish(client, queue, "g5", "h3")
    found = [(message.body.decode(), message.method.redelivered) for message in drain_messages(client, queue)]
    back = [(body, True) for body in ("b5", "e5", "c3", "a0", "d0")]
    assert found == [*back[:2], ("g5", False), back[2], ("h3", False), *back[3:], ("f0", False)]


def test_recovered_messages_come_again_in_the_order_of_priorities(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    client.ask(consume(queue))
    for body in ("a0", "b5", "c3"):
        publish(client, queue, body)
    assert delivered(client, 3) == ["a0", "b5", "c3"]
    client.send(BasicRecover(True))
    client.expect(BasicRecoverOk)
    assert delivered(client, 3) == ["b5", "c3", "a0"]


def test_a_consumer_of_higher_priority_gets_the_messages_of_higher_priority(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: the priorities of consumers and of messages have nothing to do with each other."""
    queue = declare(single_active_consumer=False)
    client.open_channel(2)
    client.ask(prefetch(2), channel=1)
    client.ask(prefetch(2), channel=2)
    publish(client, queue, *MIXED)
    client.ask(consume(queue, "second"), channel=1)
    assert delivered(client, 2) == ["b5", "e5"]
    client.ask(consume(queue, "first", arguments={"x-priority": 10}), channel=2)
    assert [client.expect_message(BasicDeliver, channel=2).body for _ in range(2)] == [b"c3", b"a0"]
    client.send(ack(2, multiple=True), channel=2)
    assert [client.expect_message(BasicDeliver, channel=2).body for _ in range(2)] == [b"d0", b"f0"]


def test_a_single_active_consumer_hands_back_to_the_next(client: Client, declare: Declare, connect: Any) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare(single_active_consumer=True)
    publish(client, queue, "a0", "b5", "c3")
    first = connect()
    first.ask(prefetch(2))
    first.ask(consume(queue))
    client.ask(consume(queue))
    assert delivered(first, 2) == ["b5", "c3"]
    first.close()
    assert delivered(client, 3) == ["b5", "c3", "a0"]


def test_a_transaction_puts_messages_into_their_levels(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    client.ask(TxSelect())
    for body in MIXED:
        client.publish(body.encode(), key=queue, properties=prioritized(body))
    client.ask(TxCommit())
    assert taken(client, queue) == ["b5", "e5", "c3", "a0", "d0", "f0"]


# The whole queue


def test_counts_are_those_of_all_levels(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, *MIXED)
    client.send(get(queue))
    assert client.expect_message(BasicGetOk).method.message_count == 5
    assert client.ask(QueuePurge(queue, False)) == QueuePurgeOk(5)
    publish(client, queue, "g2", "h4")
    assert client.ask(queue_delete(queue)).message_count == 2


def test_a_purge_leaves_what_is_out(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare()
    publish(client, queue, *MIXED)
    tags = []
    for _ in range(3):
        client.send(get(queue))
        tags.append(client.expect_message(BasicGetOk).method.delivery_tag)
    assert client.ask(QueuePurge(queue, False)) == QueuePurgeOk(3)
    publish(client, queue, "g4")
    client.send(nack(tags[-1], multiple=True))
    assert taken(client, queue) == ["b5", "e5", "g4", "c3"]


# Time


def test_what_has_expired_goes_from_the_highest_level_only(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: behind a message of higher priority it stays, counted, and is never delivered."""
    queue = declare()
    publish(client, queue, "a5")
    publish(client, queue, "b1", expiration="20")
    publish(client, queue, "c4", expiration="1")
    brief = declare()
    publish(client, brief, "p0", expiration="100")
    eventually(lambda: counted(client, brief) == 0, "a message of the same time to expire")
    assert counted(client, queue) == 3
    assert taken(client, queue) == ["a5"]
    assert counted(client, queue) == 0


def test_expiry_goes_on_in_the_next_level(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    graveyard = declare(max_priority=0)
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=graveyard)
    publish(client, queue, "a3", "b5", "c5", expiration="500")
    publish(client, queue, "d1")
    publish(client, queue, "f1", expiration="400")
    publish(client, queue, "e3", expiration="600")
    eventually(lambda: counted(client, queue) == 2, "four messages to expire")
    assert taken(client, queue) == ["d1"]
    eventually(lambda: counted(client, graveyard) == 5, "the last to follow")
    assert taken(client, graveyard) == ["b5", "c5", "a3", "e3", "f1"]


# Room


def test_the_highest_priority_goes_first_when_there_are_too_many(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: the head is dropped, and the head is the oldest of the highest priority."""
    graveyard = declare(max_priority=0)
    queue = declare(max_length=2, dead_letter_exchange="", dead_letter_routing_key=graveyard)
    publish(client, queue, *MIXED)
    assert taken(client, graveyard) == ["b5", "c3", "e5", "a0"]
    assert taken(client, queue) == ["d0", "f0"]


def test_a_message_of_the_highest_priority_does_not_get_into_a_full_queue(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: it is the head at once, and dropped."""
    queue = declare(max_length=2)
    publish(client, queue, "a0", "b0", "c5")
    assert taken(client, queue) == ["a0", "b0"]


def test_a_limit_in_bytes_drops_the_highest_priority_too(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare(max_length_bytes=5)
    publish(client, queue, "a0", "b3", "c5")
    assert taken(client, queue) == ["b3", "a0"]


def test_a_full_queue_refuses_whatever_the_priority(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = declare(max_length=2, overflow="reject-publish")
    client.ask(ConfirmSelect(False))
    for body in ("a0", "b3", "c5"):
        client.publish(body.encode(), key=queue, properties=prioritized(body))
        answer = client.receive()
        assert isinstance(answer, BasicNack if body == "c5" else BasicAck)
    assert taken(client, queue) == ["b3", "a0"]


# Dead letters


def test_a_dead_letter_keeps_its_priority(client: Client, declare: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: it is ordered by it in the next queue."""
    graveyard = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=graveyard)
    publish(client, queue, "a5", "b5")
    publish(client, graveyard, "c4")
    for _ in range(2):
        client.send(get(queue))
        client.send(nack(client.expect_message(BasicGetOk).method.delivery_tag, requeue=False))
    eventually(lambda: counted(client, graveyard) == 3, "the letters to arrive")
    assert taken(client, graveyard) == ["a5", "b5", "c4"]
