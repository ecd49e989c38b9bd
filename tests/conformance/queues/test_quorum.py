"""Quorum queues: what they refuse, how they count deliveries, and where messages go that come back."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from broker.wire.field_tables import Field
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicDeliver,
    BasicGetEmpty,
    BasicNack,
    BasicQosOk,
    BasicRecover,
    BasicReject,
    ConfirmSelect,
    QueuePurge,
    TxCommit,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import REFERENCE, differs
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import bodies, deliveries, deposit, ready
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
from harness.waiting import eventually, pass_by
from tests.conformance import Connect, Made

QUORUM = {"x-queue-type": "quorum"}


@pytest.fixture
def quorum(declare: Made) -> Made:
    """A function that declares a quorum queue; `max_length=3` is the argument x-max-length."""
    return partial(declare, queue_type="quorum")


@pytest.fixture
def dead(declare: Made) -> str:
    """A durable classic queue for dead letters."""
    return declare(queue_type="classic")


def take(client: Client, queue: str, *, no_ack: bool = False) -> Message:
    """basic.get of a message that is there, or comes back: a quorum queue answers late."""

    def got() -> Message | None:
        client.send(get(queue, no_ack=no_ack))
        item = client.receive()
        assert isinstance(item, BasicGetEmpty | Message), item
        return item if isinstance(item, Message) else None

    found = eventually(got, f"a message in {queue}")
    assert found is not None
    return found


def take_all(client: Client, queue: str, count: int) -> list[Message]:
    """Take `count` messages out of a queue and acknowledge them."""
    taken = []
    for _ in range(count):
        taken.append(take(client, queue))
        client.send(ack(taken[-1].method.delivery_tag))
    return taken


def count_of(message: Message) -> int | None:
    """Return the delivery count that a message carries."""
    field = (message.properties.headers or {}).get("x-delivery-count")
    assert field is None or field.kind == "l", field
    return None if field is None else field.value


def reason_of(message: Message) -> bytes:
    """Return the reason of a dead letter's first death."""
    value: Any = (message.properties.headers or {})["x-first-death-reason"].value
    return bytes(value)


# Declaring


def test_deletion_on_condition_is_not_implemented(connect: Connect, quorum: Made) -> None:
    """The refusal does not depend on the condition."""
    queue = quorum()
    for flag in ("if-unused", "if-empty"):
        assert connect().refusal(queue_delete(queue, **{flag.replace("-", "_"): True})) == (
            f"connection 540 NOT_IMPLEMENTED - cannot delete queue '{queue}' in vhost '/'. "
            f"queue.delete operations with {flag} flag set are not supported by quorum queues"
        )


# Consuming


def test_prefetch_of_the_whole_channel_is_not_implemented(client: Client, quorum: Made) -> None:
    """0, no limit, is none."""
    queue = quorum()
    client.ask(prefetch(0, of_channel=True))
    client.ask(consume(queue))
    assert isinstance(client.ask(prefetch(5, of_channel=True)), BasicQosOk)
    assert client.refusal(consume(queue)) == (
        f"connection 540 NOT_IMPLEMENTED - queue '{queue}' in vhost '/' does not support global qos"
    )


def test_a_single_active_consumer_is_followed_by_the_next(client: Client, quorum: Made) -> None:
    """The first to come, whatever the priorities; and nobody may get."""
    queue = quorum(single_active_consumer=True)
    assert client.refusal(get(queue)) == (
        f"channel 405 RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. "
        "basic.get operations are not supported by quorum queues with single active consumer"
    )
    client.ask(consume(queue, "first"))
    client.ask(consume(queue, "second", arguments={"x-priority": 9}))
    for tag, body in (("first", b"1"), ("second", b"2")):
        deposit(client, body, key=queue)
        assert client.expect_message(BasicDeliver).method.consumer_tag == tag
        client.ask(BasicCancel(tag, False))


def test_consumers_have_priorities(client: Client, connect: Connect, quorum: Made) -> None:
    queue = quorum()
    low, high = connect(), connect()
    low.ask(consume(queue, "low"))
    high.ask(prefetch(1))
    high.ask(consume(queue, "high", arguments={"x-priority": 5}))
    deposit(client, b"1", b"2", b"3", key=queue)
    assert high.expect_message(BasicDeliver).body == b"1"
    assert bodies(deliveries(low, 2)) == [b"2", b"3"]


# Counting deliveries


def test_a_consumer_is_told_how_often_a_message_went_out_before(client: Client, quorum: Made) -> None:
    """Nothing the first time; headers are sorted when the count joins them."""
    queue = quorum()
    headers = {"z": Field("I", 1), "a": Field("I", 2), "x-delivery-count": Field("I", 77)}
    deposit(client, b"m", key=queue, properties=BasicProperties(headers=headers, delivery_mode=1))
    client.ask(prefetch(1))
    client.ask(consume(queue))
    first = client.expect_message(BasicDeliver)
    assert not first.method.redelivered
    assert list((first.properties.headers or {}).items()) == list(headers.items())
    for count in (1, 2):
        client.send(nack(count))
        again = client.expect_message(BasicDeliver)
        assert again.method.redelivered
        counted = {"a": Field("I", 2), "x-delivery-count": Field("l", count), "z": Field("I", 1)}
        assert list((again.properties.headers or {}).items()) == list(counted.items())
        assert again.properties.delivery_mode == 1


def test_a_message_that_is_got_tells_its_count_from_the_first_time(client: Client, quorum: Made) -> None:
    """`basic.get` says 0, where basic.deliver says nothing."""
    queue = quorum()
    deposit(client, b"m", key=queue)
    for count in range(3):
        message = take(client, queue)
        assert (message.method.redelivered, count_of(message)) == (count > 0, count)
        client.send(nack(count + 1))
    last = take(client, queue, no_ack=True)
    assert (last.method.redelivered, count_of(last)) == (True, 3)


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "channel", "connection", "transaction"])
def test_every_way_back_counts(client: Client, connect: Connect, quorum: Made, how: str) -> None:
    queue = quorum()
    deposit(client, b"m", key=queue)
    other = connect()
    assert count_of(take(other, queue)) == 0
    if how == "nack":
        other.send(nack(1))
    elif how == "reject":
        other.send(BasicReject(1, True))
    elif how == "recover":
        other.send(BasicRecover(True))
    elif how == "channel":
        other.close_channel()
    elif how == "connection":
        other.close()
    else:
        other.ask(TxSelect())
        other.send(nack(1))
        other.ask(TxCommit())
    assert count_of(take(client, queue)) == 1


def test_a_message_that_came_back_too_often_is_a_dead_letter(client: Client, quorum: Made, dead: str) -> None:
    """A limit of 2 is three deliveries. The dead letter does not tell the count."""
    queue = quorum(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue, properties=BasicProperties(headers={"x-delivery-count": Field("I", 9)}))
    client.ask(prefetch(1))
    client.ask(consume(queue))
    counts = []
    for tag in (1, 2, 3):
        counts.append((client.expect_message(BasicDeliver).properties.headers or {})["x-delivery-count"])
        client.send(nack(tag))
    assert counts == [Field("I", 9), Field("l", 1), Field("l", 2)]
    dead_letter = take(client, dead)
    headers: Any = dead_letter.properties.headers
    (death,) = headers["x-death"].value
    assert list(death.value) == ["count", "reason", "queue", "time", "exchange", "routing-keys"]
    assert death.value["reason"] == Field("S", b"delivery_limit")
    assert reason_of(dead_letter) == b"delivery_limit"
    assert headers["x-delivery-count"] == Field("I", 9)


@pytest.mark.parametrize("abandoned", [False, True])
def test_a_limit_of_nothing_means_one_delivery(
    client: Client, connect: Connect, quorum: Made, dead: str, abandoned: bool
) -> None:
    queue = quorum(delivery_limit=0, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue)
    other = connect()
    take(other, queue)
    if abandoned:
        other.close()
    else:
        other.send(nack(1))
    assert reason_of(take(client, dead)) == b"delivery_limit"


@pytest.mark.parametrize(("limit", "deliveries"), [("a", None), (1.5, 2), (True, None)], ids=str)
def test_a_limit_that_is_no_integer(
    client: Client, quorum: Made, dead: str, limit: Any, deliveries: int | None
) -> None:
    """Compared as Erlang terms, in which texts and booleans are above all numbers."""
    queue = quorum(delivery_limit=limit, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue)
    for tag in range(1, (deliveries or 4) + 1):
        take(client, queue)
        client.send(nack(tag))
    assert take(client, queue if deliveries is None else dead).body == b"m"


@differs("a negative limit is none, as in RabbitMQ 4: 3.10 would drop every message that comes back")
def test_a_negative_limit_buries_at_once(client: Client, quorum: Made, dead: str) -> None:
    queue = quorum(delivery_limit=-1, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue)
    take(client, queue)
    client.send(nack(1))
    eventually(lambda: ready(client, dead) + ready(client, queue), "the message to be in one of them")
    assert ready(client, dead) == 1


# Where messages go that come back


@pytest.mark.parametrize(
    ("limit", "order", "counts"),
    [({}, b"53142", [0, 1, 1, 1, 1]), ({"delivery_limit": 5}, b"31425", [1, 1, 1, 1, 0])],
    ids=["without a limit to the end", "with a limit first"],
)
def test_where_what_is_given_back_goes(
    client: Client, quorum: Made, limit: dict[str, int], order: bytes, counts: list[int]
) -> None:
    """In the order in which it came back."""
    queue = quorum(**limit)
    deposit(client, *(b"%d" % number for number in range(1, 6)), key=queue)
    for _ in range(4):
        take(client, queue)
    for tag in (3, 1, 4, 2):
        client.send(nack(tag))
    client.ask(prefetch(0))
    messages = take_all(client, queue, 5)
    assert b"".join(bodies(messages)) == order
    assert [count_of(message) for message in messages] == counts


def test_what_a_channel_leaves_behind_goes_first(client: Client, connect: Connect, quorum: Made) -> None:
    """With a limit or without."""
    queue = quorum()
    deposit(client, *(b"%d" % number for number in range(1, 6)), key=queue)
    other = connect()
    for _ in range(3):
        take(other, queue)
    other.close()
    eventually(lambda: ready(client, queue) == 5, "all of them ready")
    assert bodies(take_all(client, queue, 5)) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_consumer_with_credit_gets_others_before_what_it_gave_back(client: Client, quorum: Made) -> None:
    queue = quorum()
    deposit(client, b"1", b"2", b"3", key=queue)
    client.ask(prefetch(1))
    client.ask(consume(queue))
    seen = []
    for tag in range(1, 7):
        seen.append(client.expect_message(BasicDeliver).body)
        client.send(nack(tag))
    assert seen == [b"1", b"2", b"3", b"1", b"2", b"3"]


def test_a_cancelled_consumer_keeps_what_it_has(client: Client, name: Made) -> None:
    """A purge leaves it, and a deletion does not count it; then it may still be acknowledged."""
    queue = name()
    client.ask(queue_declare(queue, durable=True, arguments=QUORUM))
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    client.ask(prefetch(2))
    client.ask(consume(queue, "t"))
    assert bodies(deliveries(client, 2)) == [b"1", b"2"]
    client.ask(BasicCancel("t", False))
    assert ready(client, queue) == 2
    client.send(nack(1))
    assert bodies(take_all(client, queue, 3)) == [b"3", b"4", b"1"]
    deposit(client, b"5", b"6", key=queue)
    assert client.ask(QueuePurge(queue, False)).message_count == 2
    client.send(nack(2))
    take(client, queue)
    deposit(client, b"7", key=queue)
    assert client.ask(queue_delete(queue)).message_count == 1
    client.send(ack(6))
    client.ask(prefetch(0))


# Limits


def confirmed(client: Client, queue: str, count: int) -> list[bool]:
    """Publish one by one, each after the answer to the one before and when the queue has counted it."""
    answers = []
    for _ in range(count):
        before = ready(client, queue)
        client.publish(b"m", key=queue, channel=2)
        answer: Any = client.receive(channel=2)
        assert isinstance(answer, BasicAck | BasicNack)
        answers.append(isinstance(answer, BasicAck))
        settle_down(client, queue, before + answers[-1])
    return answers


def settle_down(client: Client, queue: str, expected: int) -> None:
    """Wait for a count, and for the publisher's side of RabbitMQ to have heard of it."""
    eventually(lambda: ready(client, queue) == expected, f"{expected} messages")
    if REFERENCE:
        pass_by(time.monotonic() + 0.3)


def test_a_queue_that_refuses_takes_one_more_then_none_until_it_has_sunk(client: Client, quorum: Made) -> None:
    """With a limit of 10 it takes 11, and again when there are 8."""
    queue = quorum(max_length=10, overflow="reject-publish")
    client.open_channel(2)
    client.ask(ConfirmSelect(False), channel=2)
    assert confirmed(client, queue, 13) == [True] * 11 + [False] * 2
    after_each = []
    for left in (10, 9, 8):
        take_all(client, queue, 1)
        settle_down(client, queue, left)
        after_each += confirmed(client, queue, 1)
    assert after_each == [False, False, True]


@pytest.mark.parametrize(
    "limit",
    [
        {"max_length": 2, "overflow": "drop-head"},
        {"max_length": 2, "overflow": "reject-publish-dlx"},
        {"max_length_bytes": 12},
    ],
    ids=str,
)
def test_too_many_messages_lose_the_oldest(client: Client, quorum: Made, dead: str, limit: dict[str, Any]) -> None:
    """`reject-publish-dlx` is accepted, and means drop-head."""
    queue = quorum(**limit, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"11111", b"22222", b"33333", b"44444", key=queue)
    dead_letters = take_all(client, dead, 2)
    assert bodies(dead_letters) == [b"11111", b"22222"]
    assert {reason_of(dead_letter) for dead_letter in dead_letters} == {b"maxlen"}
    assert bodies(take_all(client, queue, 2)) == [b"33333", b"44444"]


@pytest.mark.parametrize(("limit", "dropped", "left"), [(5, b"1", [b"2", b"3"]), (None, b"2", [b"3", b"1"])], ids=str)
def test_what_comes_back_may_be_too_much(
    client: Client, quorum: Made, dead: str, limit: int | None, dropped: bytes, left: list[bytes]
) -> None:
    """The first in line goes, wherever the one that came back has gone."""
    more = {} if limit is None else {"delivery_limit": limit}
    queue = quorum(max_length=2, dead_letter_exchange="", dead_letter_routing_key=dead, **more)
    deposit(client, b"1", b"2", key=queue)
    take(client, queue)
    deposit(client, b"3", key=queue)
    client.send(nack(1))
    assert take(client, dead).body == dropped
    assert bodies(take_all(client, queue, 2)) == left


@pytest.mark.parametrize("of_queue", [True, False])
def test_messages_expire(client: Client, quorum: Made, dead: str, of_queue: bool) -> None:
    ttl = {"message_ttl": 50} if of_queue else {}
    queue = quorum(dead_letter_exchange="", dead_letter_routing_key=dead, **ttl)
    own = BasicProperties(expiration="100000" if of_queue else "50")
    deposit(client, b"m", key=queue, properties=own)
    dead_letter = take(client, dead)
    assert reason_of(dead_letter) == b"expired"
    assert dead_letter.properties.expiration is None


def test_the_limit_of_a_queue_that_refuses_does_not_hold_for_dead_letters(client: Client, quorum: Made) -> None:
    """A publisher is told of a refusal; nobody would be told of a dead letter that is lost."""
    full = quorum(max_length=2, overflow="reject-publish")
    queue = quorum(dead_letter_exchange="", dead_letter_routing_key=full)
    deposit(client, *(b"%d" % number for number in range(8)), key=queue)
    for tag in range(1, 9):
        take(client, queue)
        client.send(BasicReject(tag, False))
    assert sorted(bodies(take_all(client, full, 8))) == [b"%d" % number for number in range(8)]


# Dead letters at least once

AT_LEAST_ONCE = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish", "dead_letter_exchange": ""}


def test_dead_letters_that_nobody_takes_wait_and_count_as_messages_of_the_queue(
    client: Client, quorum: Made, name: Made
) -> None:
    """They are not ready, survive a purge, and use up the limit."""
    queue = quorum(**AT_LEAST_ONCE, dead_letter_routing_key=name("nowhere"), max_length=3)
    client.open_channel(2)
    client.ask(ConfirmSelect(False), channel=2)
    assert confirmed(client, queue, 2) == [True, True]
    take(client, queue)
    client.send(BasicReject(1, False))
    settle_down(client, queue, 1)
    assert confirmed(client, queue, 3) == [True, True, False]
    assert client.ask(QueuePurge(queue, False)).message_count == 3


@pytest.mark.slow
def test_dead_letters_wait_for_a_queue_that_is_full(client: Client, quorum: Made, name: Made) -> None:
    """With at-most-once the second would be gone."""
    full = name("full")
    client.ask(queue_declare(full, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}))
    queue = quorum(**AT_LEAST_ONCE, dead_letter_routing_key=full)
    deposit(client, b"1", b"2", key=queue)
    for tag in (1, 2):
        take(client, queue)
        client.send(BasicReject(tag, False))
    assert bodies(take_all(client, full, 1)) == [b"1"]
    if not REFERENCE:  # RabbitMQ tries again after three minutes
        assert bodies(take_all(client, full, 1)) == [b"2"]
    client.ask(queue_delete(full))
