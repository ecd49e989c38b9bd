"""Quorum queues over a restart: contents, delivery counts, and dead letters that nobody has taken yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.methods import BasicDeliver, BasicGetEmpty, BasicGetOk, BasicReject
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT, TRANSIENT
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually

Dial = Callable[[], Client]

pytestmark = pytest.mark.slow


def declare(client: Client, name: str, **arguments: Any) -> None:
    """Declare a quorum queue; `max_length=3` is the argument x-max-length."""
    given = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    client.ask(queue_declare(name, durable=True, arguments={"x-queue-type": "quorum", **given}))


def take(client: Client, queue: str) -> Message:
    client.send(get(queue))
    return client.expect_message(BasicGetOk)


def count_of(message: Message) -> int | None:
    """What a message says of its deliveries."""
    field = (message.properties.headers or {}).get("x-delivery-count")
    return None if field is None else field.value


def seen(message: Message) -> tuple[bytes, bool, int | None]:
    return message.body, message.method.redelivered, count_of(message)


def flush(client: Client) -> None:
    """Wait for a confirm of something later: what the connection did before is then on disk as well."""
    declare(client, "flushed")
    deposit(client, b"", key="flushed")


def test_whatever_is_published_is_kept(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ's quorum queues keep transient messages too, and hand them out as they were published."""
    client = dial()
    declare(client, "q")
    deposit(client, b"transient", key="q", properties=TRANSIENT)
    deposit(client, b"persistent", key="q", properties=PERSISTENT)
    client = reborn()
    declare(client, "q")
    messages = [take(client, "q"), take(client, "q")]
    assert [(message.body, message.properties.delivery_mode) for message in messages] == [
        (b"transient", 1),
        (b"persistent", 2),
    ]
    assert [seen(message)[1:] for message in messages] == [(False, 0), (False, 0)]


def test_delivery_counts_go_on(dial: Dial, reborn: Dial) -> None:
    """Recorded from RabbitMQ 3.10.8: what was out has come back once more; what was not keeps its count."""
    client = dial()
    declare(client, "q", delivery_limit=10)
    deposit(client, b"once", b"thrice", b"back", b"never", key="q")
    tags = iter(range(1, 100))
    for _ in range(2):
        messages = [take(client, "q") for _ in range(3)]
        by_body = {message.body: next(tags) for message in messages}
        client.send(*(nack(by_body[body]) for body in (b"thrice", b"back")))
        if b"once" in by_body:
            held = by_body.pop(b"once")
    assert held == 1
    first = take(client, "q")
    assert seen(first)[2] is not None
    flush(client)
    client = reborn()
    counts = {message.body: seen(message)[1:] for message in (take(client, "q") for _ in range(4))}
    assert counts[b"once"] == (True, 1)
    assert counts[b"never"][0] == (counts[b"never"][1] > 0)
    assert counts[b"thrice"][1] in (2, 3)
    assert sum(count or 0 for _flag, count in counts.values()) == 1 + 2 + 2 + 1 + (counts[b"never"][1] or 0)


def test_a_limit_counts_over_restarts(dial: Dial, reborn: Dial) -> None:
    """Recorded from RabbitMQ 3.10.8: each time the broker dies with a message out is a delivery."""
    client = dial()
    client.ask(queue_declare("dead", durable=True))
    declare(client, "q", delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    deposit(client, b"poison", key="q", properties=PERSISTENT)
    for count in (0, 1):
        assert count_of(take(client, "q")) == count
        flush(client)
        client = reborn()
    letter = eventually(lambda: _got(client, "dead"), "the letter")
    headers: Any = letter.properties.headers
    assert headers["x-first-death-reason"].value == b"delivery_limit"
    client.send(get("q"))
    client.expect(BasicGetEmpty)


def _got(client: Client, queue: str) -> Message | None:
    client.send(get(queue, no_ack=True))
    item = client.receive()
    return item if isinstance(item, Message) else None


def test_what_was_given_back_stays_at_the_end(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ 3.10.8: without a delivery limit a nack moves a message, on disk too."""
    client = dial()
    declare(client, "q")
    deposit(client, *(b"%d" % number for number in range(5)), key="q")
    for _ in range(3):
        take(client, "q")
    client.send(nack(2), nack(1))
    flush(client)
    client = reborn()
    assert [seen(take(client, "q")) for _ in range(5)] == [
        (b"2", True, 1),
        (b"3", False, 0),
        (b"4", False, 0),
        (b"1", True, 1),
        (b"0", True, 1),
    ]


def test_acknowledged_is_gone(dial: Dial, reborn: Dial) -> None:
    """Also what had been given back before."""
    client = dial()
    declare(client, "q")
    deposit(client, b"1", b"2", b"3", key="q")
    client.ask(prefetch(1))
    client.ask(consume("q"))
    client.expect_message(BasicDeliver)
    client.send(nack(1))
    for tag in (2, 3, 4):
        client.expect_message(BasicDeliver)
        client.send(ack(tag))
    flush(client)
    client = reborn()
    assert drain(client, "q") == []


def test_letters_that_nobody_took_wait_on(dial: Dial, reborn: Dial) -> None:
    """RabbitMQ 3.10: a message rejected with dead letters at least once does not become ready again."""
    client = dial()
    arguments = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish", "dead_letter_exchange": ""}
    declare(client, "q", **arguments, dead_letter_routing_key="dead")
    deposit(client, b"1", b"2", b"3", key="q")
    for tag in (1, 2):
        take(client, "q")
        client.send(BasicReject(tag, False))
    flush(client)
    client = reborn()
    assert seen(take(client, "q")) == (b"3", False, 0)
    client.send(get("q"))
    client.expect(BasicGetEmpty)
    client.ask(queue_declare("dead", durable=True))
    letters = [eventually(lambda: _got(client, "dead"), "a letter") for _ in range(2)]
    assert [letter.body for letter in letters] == [b"1", b"2"]
    reasons: list[Any] = [(letter.properties.headers or {})["x-first-death-reason"].value for letter in letters]
    assert reasons == [b"rejected", b"rejected"]
    flush(client)
    client = reborn()
    assert _got(client, "dead") is None
    client.ask(queue_delete("q"))
