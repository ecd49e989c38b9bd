"""Queues with x-max-priority: what goes first out to consumers, and what goes first when time or room runs out."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from broker.entities.arguments.personality import Series
from broker.wire.field_tables import Field
from broker.wire.frames import content_frames, method_frame
from broker.wire.methods import (
    BasicPublish,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.queue_steps import deliveries, deposit, drain, drain_messages, fetch, ready
from harness.clients.shorthand import ack, consume, nack, prefetch
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Made

FRAME_BYTES = 4096
MIXED = ("a0", "b5", "c3", "d0", "e5", "f0")
"""Bodies that end in the priority they are published with."""


@pytest.fixture
def declare(declare: Made) -> Made:
    """A function that makes a queue with six priorities; `max_length=3` is the argument x-max-length."""
    return partial(declare, max_priority=5)


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
    return [message.body.decode() for message in deliveries(client, count)]


# Order


@pytest.mark.parametrize(
    ("highest", "published", "expected"),
    [
        (5, MIXED, ("b5", "e5", "c3", "a0", "d0", "f0")),
        (5, ("a4", "b9", "c5", "d255", "e6"), ("b9", "c5", "d255", "e6", "a4")),
        (1, ("a0", "b0", "c1"), ("c1", "a0", "b0")),
        (255, ("a0", "b254", "c255"), ("c255", "b254", "a0")),
        *((Field(kind, 3), ("a0", "b3", "c2"), ("b3", "c2", "a0")) for kind in "bBsuIil"),
    ],
    ids=["levels", "beyond the highest", "two levels", "256 levels", *"bBsuIil"],
)
def test_higher_priorities_come_first_and_equal_ones_in_order(
    client: Client, declare: Made, highest: Any, published: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """A priority beyond the highest counts as the highest, and the property goes out as it came."""
    queue = declare(max_priority=highest)
    publish(client, queue, *published)
    found = [(message.body.decode(), message.properties.priority) for message in drain_messages(client, queue)]
    assert found == [(body, int(body[1:])) for body in expected]


def test_a_highest_priority_of_0(client: Client, declare: Made, series: Series) -> None:
    """No priorities; 4.2 takes it for 1."""
    queue = declare(max_priority=0)
    publish(client, queue, *MIXED)
    expected = MIXED if series < (4, 0) else ("b5", "c3", "e5", "a0", "d0", "f0")
    assert [message.body.decode() for message in drain_messages(client, queue)] == list(expected)


def test_no_priority_is_the_lowest(client: Client, declare: Made, queue: str) -> None:
    """To a queue without the argument priorities mean nothing; the 0-9-1 specification wants two levels at least."""
    leveled = declare()
    publish(client, leveled, "a0")
    deposit(client, b"none", key=leveled)
    publish(client, leveled, "b0", "c1")
    assert taken(client, leveled) == ["c1", "a0", "none", "b0"]
    publish(client, queue, *MIXED)
    assert taken(client, queue) == list(MIXED)


# Consumers


def test_a_consumer_gets_the_highest_of_what_waits(client: Client, declare: Made) -> None:
    queue = declare()
    publish(client, queue, *MIXED)
    client.ask(prefetch(1))
    client.ask(consume(queue))
    order = []
    for tag in range(1, len(MIXED) + 1):
        order += delivered(client, 1)
        client.send(ack(tag))
    assert order == ["b5", "e5", "c3", "a0", "d0", "f0"]


@pytest.mark.parametrize("limited", [False, True])
def test_a_consumer_that_waits_is_given_what_comes_as_it_comes(client: Client, declare: Made, limited: bool) -> None:
    """One write with rising priorities. Beyond the prefetch it queues up in the order of priorities."""
    queue = declare()
    client.ask(prefetch(1 if limited else 0))
    client.ask(consume(queue))
    publish_in_one_write(client, queue, "a0", "b3", "c5", "d1", "e5")
    order = []
    for tag in range(1, 6):
        order += delivered(client, 1)
        if limited and tag == 1:
            assert eventually(lambda: ready(client, queue) == 4, "the rest to be in the queue")
        client.send(ack(tag))
    assert order == (["a0", "c5", "e5", "b3", "d1"] if limited else ["a0", "b3", "c5", "d1", "e5"])


# Time


def test_what_has_expired_goes_from_the_highest_level_only(client: Client, declare: Made) -> None:
    """Behind a message of higher priority it stays, counted, and is never delivered. Expiry goes on in the next level."""
    queue = declare()
    publish(client, queue, "a5")
    publish(client, queue, "b1", expiration="20")
    publish(client, queue, "c4", expiration="1")
    brief = declare()
    publish(client, brief, "p0", expiration="100")
    eventually(lambda: ready(client, brief) == 0, "a message of the same time to expire")
    assert ready(client, queue) == 3
    assert taken(client, queue) == ["a5"]
    assert ready(client, queue) == 0
    dead_letters = declare(max_priority=0)
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead_letters)
    publish(client, queue, "a3", "b5", "c5", expiration="500")
    publish(client, queue, "d1")
    publish(client, queue, "f1", expiration="400")
    publish(client, queue, "e3", expiration="600")
    eventually(lambda: ready(client, queue) == 2, "four messages to expire")
    assert taken(client, queue) == ["d1"]
    eventually(lambda: ready(client, dead_letters) == 5, "the last to follow")
    assert taken(client, dead_letters) == ["b5", "c5", "a3", "e3", "f1"]


# Dead letters


def test_a_dead_letter_keeps_its_priority(client: Client, declare: Made) -> None:
    """It is ordered by it in the next queue."""
    dead_letters = declare()
    queue = declare(dead_letter_exchange="", dead_letter_routing_key=dead_letters)
    publish(client, queue, "a5", "b5")
    publish(client, dead_letters, "c4")
    fetch(client, queue, 2)
    client.send(nack(2, multiple=True, requeue=False))
    eventually(lambda: ready(client, dead_letters) == 3, "the dead letters to arrive")
    assert taken(client, dead_letters) == ["a5", "b5", "c4"]
