"""Quorum queues: what they refuse, how they count deliveries, and where messages go that come back."""

from __future__ import annotations

import time
from collections.abc import Callable
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
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually, pass_by

Name = Callable[..., str]
Connect = Callable[..., Client]
QUORUM = {"x-queue-type": "quorum"}
DEADLINE_SECONDS = 10.0


@pytest.fixture
def quorum(client: Client, name: Name, connect: Connect) -> Any:
    """A function that declares a quorum queue and returns its name; `max_length=3` is the argument x-max-length."""
    made: list[str] = []

    def declare(**arguments: Any) -> str:
        given = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
        made.append(name("quorum"))
        client.ask(queue_declare(made[-1], durable=True, arguments={**QUORUM, **given}))
        return made[-1]

    yield declare
    last = connect()
    for queue in made:
        last.ask(queue_delete(queue))


@pytest.fixture
def dead(client: Client, name: Name, connect: Connect) -> Any:
    """The name of a durable classic queue for dead letters."""
    queue = name("dead")
    client.ask(queue_declare(queue, durable=True))
    yield queue
    connect().ask(queue_delete(queue))


Declare = Callable[..., str]


def take(client: Client, queue: str) -> Message:
    """basic.get of a message that is there, or comes back within the deadline: a quorum queue answers late."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        client.send(get(queue))
        item = client.receive()
        if isinstance(item, Message):
            return item
        assert isinstance(item, BasicGetEmpty), item
        assert time.monotonic() < deadline, f"nothing in {queue}"


def take_all(client: Client, queue: str, count: int) -> list[Message]:
    """So many messages out of a queue, acknowledged."""
    taken = []
    for _ in range(count):
        taken.append(take(client, queue))
        client.send(ack(taken[-1].method.delivery_tag))
    return taken


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


def count_of(message: Message) -> int | None:
    """What a message says of its deliveries."""
    field = (message.properties.headers or {}).get("x-delivery-count")
    assert field is None or field.kind == "l", field
    return None if field is None else field.value


def reason_of(message: Message) -> bytes:
    """Why a dead letter died first."""
    value: Any = (message.properties.headers or {})["x-first-death-reason"].value
    return bytes(value)


def ready(client: Client, queue: str) -> int:
    return int(client.ask(queue_declare(queue, passive=True)).message_count)


# Declaring


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-max-priority": 5}, "invalid arg 'x-max-priority' {q} of queue type rabbit_quorum_queue"),
        ({"x-queue-mode": "lazy"}, "invalid arg 'x-queue-mode' {q} of queue type rabbit_quorum_queue"),
        ({"x-queue-version": 2}, "invalid arg 'x-queue-version' {q} of queue type rabbit_quorum_queue"),
        ({"x-queue-master-locator": "min-masters"},
         "invalid arg 'x-queue-master-locator' {q} of queue type rabbit_quorum_queue"),
        ({"x-max-age": "1h"}, "invalid arg 'x-max-age' {q} of queue type rabbit_quorum_queue"),
        ({"x-stream-max-segment-size-bytes": 5},
         "invalid arg 'x-stream-max-segment-size-bytes' {q} of queue type rabbit_quorum_queue"),
        ({"x-initial-cluster-size": 1}, "invalid arg 'x-initial-cluster-size' {q} of queue type rabbit_quorum_queue"),
        ({"x-max-priority": 5, "x-message-ttl": "a"},
         "invalid arg 'x-message-ttl' {q}: \"expected integer, got longstr\""),
        ({"x-message-ttl": -1}, "invalid arg 'x-message-ttl' {q}: {{value_negative,-1}}"),
        ({"x-expires": 0}, "invalid arg 'x-expires' {q}: {{value_zero,0}}"),
        ({"x-dead-letter-strategy": "bad"}, "invalid arg 'x-dead-letter-strategy' {q}: invalid_dlx_strategy"),
        ({"x-dead-letter-strategy": 5}, "invalid arg 'x-dead-letter-strategy' {q}: {{unacceptable_type,signedint}}"),
        ({"x-max-in-memory-length": -1}, "invalid arg 'x-max-in-memory-length' {q}: {{value_negative,-1}}"),
        ({"x-max-in-memory-bytes": "a"},
         "invalid arg 'x-max-in-memory-bytes' {q}: \"expected integer, got longstr\""),
        ({"x-quorum-initial-group-size": 0}, "invalid arg 'x-quorum-initial-group-size' {q}: {{value_zero,0}}"),
        ({"x-queue-leader-locator": "odd"}, "invalid arg 'x-queue-leader-locator' {q}: invalid_queue_locator_arg"),
        ({"x-queue-leader-locator": 5}, "invalid arg 'x-queue-leader-locator' {q}: {{unacceptable_type,signedint}}"),
        ({"x-overflow": "bad"}, "invalid arg 'x-overflow' {q}: invalid_overflow"),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_that_are_refused(client: Client, name: Name, arguments: dict[str, Any], text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    refused = client.refusal(queue_declare(queue, durable=True, arguments={**QUORUM, **arguments}))
    where = f"for queue '{queue}' in vhost '/'"
    assert refused == f"channel 406 PRECONDITION_FAILED - {text.format(q=where)}"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x-message-ttl": 1000},
        {"x-expires": 60_000},
        {"x-max-length": 5, "x-max-length-bytes": 50, "x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-max-in-memory-length": 0, "x-max-in-memory-bytes": 0},
        {"x-quorum-initial-group-size": 3},
        {"x-quorum-target-group-size": "any", "x-quorum-other": 1},
        {"x-queue-leader-locator": "balanced"},
        {"x-queue-leader-locator": "random"},
        {"x-single-active-consumer": True},
        {"x-delivery-limit": 0},
        {"x-delivery-limit": -1},
        {"x-delivery-limit": "a"},
        {"x-dead-letter-strategy": "at-least-once"},
        {"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
    ],
    ids=str,
)
def test_arguments_that_are_accepted(client: Client, name: Name, arguments: dict[str, Any]) -> None:
    """RabbitMQ 3.10.8 on the wire: nothing is checked of x-delivery-limit."""
    queue = name()
    for _ in range(2):
        client.ask(queue_declare(queue, durable=True, arguments={**QUORUM, **arguments}))
    client.ask(queue_delete(queue))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "'x-queue-type' {q}: received none but current is the value 'quorum' of type 'longstr'"),
        ({"x-queue-type": "classic"}, "'x-queue-type' {q}: received 'classic' but current is 'quorum'"),
        ({"x-queue-type": 5}, "'x-queue-type' {q}: received '5' but current is 'quorum'"),
        ({"x-message-ttl": 5},
         "'x-queue-type' {q}: received none but current is the value 'quorum' of type 'longstr'"),
        ({**QUORUM, "x-message-ttl": 5, "x-max-length": 5},
         "'x-max-length' {q}: received the value '5' of type 'signedint' but current is none"),
        ({**QUORUM, "x-delivery-limit": 5},
         "'x-delivery-limit' {q}: received the value '5' of type 'signedint' but current is none"),
        ({**QUORUM, "x-quorum-initial-group-size": 3},
         "'x-quorum-initial-group-size' {q}: received the value '3' of type 'signedint' but current is none"),
    ],
    ids=str,
)  # fmt: skip
def test_a_second_declaration_is_compared(
    client: Client, quorum: Declare, arguments: dict[str, Any], text: str
) -> None:
    """RabbitMQ 3.10.8 on the wire: arguments are compared in the order in which the type lists them."""
    queue = quorum()
    where = f"for queue '{queue}' in vhost '/'"
    refused = client.refusal(queue_declare(queue, durable=True, arguments=arguments))
    assert refused == f"channel 406 PRECONDITION_FAILED - inequivalent arg {text.format(q=where)}"


def test_arguments_of_other_types_are_not_compared(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: what was refused at the first declaration passes at the second."""
    queue = quorum()
    for other in ({"x-max-priority": 5}, {"x-queue-mode": "lazy"}, {"x-max-age": "1h"}):
        client.ask(queue_declare(queue, durable=True, arguments={**QUORUM, **other}))


@pytest.mark.parametrize("flag", ["if-unused", "if-empty"])
def test_deletion_on_condition_is_not_implemented(client: Client, quorum: Declare, flag: str) -> None:
    """RabbitMQ 3.10.8 on the wire: whether or not the condition holds."""
    queue = quorum()
    refused = client.refusal(queue_delete(queue, **{flag.replace("-", "_"): True}))
    assert refused == (
        f"connection 540 NOT_IMPLEMENTED - cannot delete queue '{queue}' in vhost '/'. "
        f"queue.delete operations with {flag} flag set are not supported by quorum queues"
    )


# Consuming


@pytest.mark.parametrize(("argument", "value"), [("x-stream-offset", "first"), ("x-cancel-on-ha-failover", True)])
def test_arguments_of_consumers_of_other_queues(client: Client, quorum: Declare, argument: str, value: object) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum()
    assert client.refusal(consume(queue, arguments={argument: value})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/' "
        "of queue type rabbit_quorum_queue"
    )


def test_prefetch_of_the_whole_channel_is_not_implemented(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: 0, no limit, is none."""
    queue = quorum()
    client.ask(prefetch(0, of_channel=True))
    client.ask(consume(queue))
    assert isinstance(client.ask(prefetch(5, of_channel=True)), BasicQosOk)
    assert client.refusal(consume(queue)) == (
        f"connection 540 NOT_IMPLEMENTED - queue '{queue}' in vhost '/' does not support global qos"
    )


def test_exclusive_consumers_are_like_others(client: Client, connect: Connect, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: the flag means nothing."""
    queue = quorum()
    client.ask(consume(queue, "a", exclusive=True))
    other = connect()
    other.ask(consume(queue, "b"))
    other.ask(consume(queue, "c", exclusive=True))


def test_a_single_active_consumer_queue_is_not_to_be_got_from(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum(single_active_consumer=True)
    assert client.refusal(get(queue)) == (
        f"channel 405 RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. "
        "basic.get operations are not supported by quorum queues with single active consumer"
    )


def test_a_single_active_consumer_is_followed_by_the_next(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: the first to come, whatever the priorities."""
    queue = quorum(single_active_consumer=True)
    client.ask(consume(queue, "first"))
    client.ask(consume(queue, "second", arguments={"x-priority": 9}))
    deposit(client, b"1", key=queue)
    assert client.expect_message(BasicDeliver).method.consumer_tag == "first"
    client.ask(BasicCancel("first", False))
    deposit(client, b"2", key=queue)
    assert client.expect_message(BasicDeliver).method.consumer_tag == "second"


def test_consumers_have_priorities(client: Client, connect: Connect, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum()
    low, high = connect(), connect()
    low.ask(consume(queue, "low"))
    high.ask(prefetch(1))
    high.ask(consume(queue, "high", arguments={"x-priority": 5}))
    deposit(client, b"1", b"2", b"3", key=queue)
    assert high.expect_message(BasicDeliver).body == b"1"
    assert [low.expect_message(BasicDeliver).body for _ in range(2)] == [b"2", b"3"]


# Counting deliveries


def test_a_consumer_is_told_how_often_a_message_went_out_before(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: nothing the first time; headers are sorted when the count joins them."""
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


def test_a_message_that_is_got_tells_its_count_from_the_first_time(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: basic.get says 0, where basic.deliver says nothing."""
    queue = quorum()
    deposit(client, b"m", key=queue)
    for count in range(3):
        message = take(client, queue)
        assert (message.method.redelivered, count_of(message)) == (count > 0, count)
        client.send(nack(count + 1))
    client.send(get(queue, no_ack=True))
    last = wait_for_get(client, queue)
    assert (last.method.redelivered, count_of(last)) == (True, 3)


def wait_for_get(client: Client, queue: str) -> Message:
    """The answer to a basic.get without acknowledgement, asked again while it is empty."""
    while not isinstance(item := client.receive(), Message):
        client.send(get(queue, no_ack=True))
    return item


@pytest.mark.parametrize("how", ["nack", "reject", "recover", "channel", "connection", "transaction"])
def test_every_way_back_counts(client: Client, connect: Connect, quorum: Declare, how: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
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


def test_a_message_that_came_back_too_often_is_a_dead_letter(client: Client, quorum: Declare, dead: str) -> None:
    """RabbitMQ 3.10.8 on the wire: a limit of 2 is three deliveries. The letter does not tell the count."""
    queue = quorum(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue, properties=BasicProperties(headers={"x-delivery-count": Field("I", 9)}))
    client.ask(prefetch(1))
    client.ask(consume(queue))
    counts = []
    for tag in (1, 2, 3):
        counts.append((client.expect_message(BasicDeliver).properties.headers or {})["x-delivery-count"])
        client.send(nack(tag))
    assert counts == [Field("I", 9), Field("l", 1), Field("l", 2)]
    letter = take(client, dead)
    headers: Any = letter.properties.headers
    (death,) = headers["x-death"].value
    assert list(death.value) == ["count", "reason", "queue", "time", "exchange", "routing-keys"]
    assert death.value["reason"] == Field("S", b"delivery_limit")
    assert reason_of(letter) == b"delivery_limit"
    assert headers["x-delivery-count"] == Field("I", 9)


@pytest.mark.parametrize("abandoned", [False, True])
def test_a_limit_of_nothing_means_one_delivery(
    client: Client, connect: Connect, quorum: Declare, dead: str, abandoned: bool
) -> None:
    """RabbitMQ 3.10.8 on the wire."""
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
    client: Client, quorum: Declare, dead: str, limit: Any, deliveries: int | None
) -> None:
    """RabbitMQ 3.10.8 on the wire: compared as Erlang terms, in which texts and booleans are above all numbers."""
    queue = quorum(delivery_limit=limit, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue)
    for tag in range(1, (deliveries or 4) + 1):
        take(client, queue)
        client.send(nack(tag))
    assert take(client, queue if deliveries is None else dead).body == b"m"


@differs("a negative limit is none, as in RabbitMQ 4: 3.10 would drop every message that comes back")
def test_a_negative_limit_buries_at_once(client: Client, quorum: Declare, dead: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum(delivery_limit=-1, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"m", key=queue)
    take(client, queue)
    client.send(nack(1))
    eventually(lambda: ready(client, dead) == 1, "the letter", seconds=1)


# Where messages go that come back


def test_without_a_limit_what_is_given_back_goes_to_the_end(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum()
    deposit(client, *(b"%d" % number for number in range(1, 6)), key=queue)
    for _ in range(4):
        take(client, queue)
    for tag in (3, 1, 4, 2):
        client.send(nack(tag))
    messages = take_all(client, queue, 5)
    assert bodies(messages) == [b"5", b"3", b"1", b"4", b"2"]
    assert [count_of(message) for message in messages] == [0, 1, 1, 1, 1]


def test_with_a_limit_what_is_given_back_goes_first(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: in the order in which it came back."""
    queue = quorum(delivery_limit=5)
    deposit(client, *(b"%d" % number for number in range(1, 6)), key=queue)
    for _ in range(4):
        take(client, queue)
    for tag in (3, 1, 4, 2):
        client.send(nack(tag))
    client.ask(prefetch(0))
    assert bodies(take_all(client, queue, 5)) == [b"3", b"1", b"4", b"2", b"5"]


def test_what_a_channel_leaves_behind_goes_first(client: Client, connect: Connect, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: with a limit or without."""
    queue = quorum()
    deposit(client, *(b"%d" % number for number in range(1, 6)), key=queue)
    other = connect()
    for _ in range(3):
        take(other, queue)
    other.close()
    eventually(lambda: ready(client, queue) == 5, "all of them ready")
    assert bodies(take_all(client, queue, 5)) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_consumer_with_credit_gets_others_before_what_it_gave_back(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum()
    deposit(client, b"1", b"2", b"3", key=queue)
    client.ask(prefetch(1))
    client.ask(consume(queue))
    seen = []
    for tag in range(1, 7):
        seen.append(client.expect_message(BasicDeliver).body)
        client.send(nack(tag))
    assert seen == [b"1", b"2", b"3", b"1", b"2", b"3"]


def test_a_cancelled_consumer_keeps_what_it_has(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum()
    deposit(client, b"1", b"2", b"3", key=queue)
    client.ask(prefetch(2))
    client.ask(consume(queue, "t"))
    assert [client.expect_message(BasicDeliver).body for _ in range(2)] == [b"1", b"2"]
    client.ask(BasicCancel("t", False))
    assert ready(client, queue) == 1
    client.send(nack(1))
    assert bodies(take_all(client, queue, 2)) == [b"3", b"1"]


def test_purge_leaves_what_is_out(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum()
    deposit(client, b"1", b"2", b"3", key=queue)
    take(client, queue)
    assert client.ask(QueuePurge(queue, False)).message_count == 2
    client.send(nack(1))
    assert bodies(take_all(client, queue, 1)) == [b"1"]


def test_deletion_counts_what_is_ready(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire. What was out may still be acknowledged."""
    queue = name()
    client.ask(queue_declare(queue, durable=True, arguments=QUORUM))
    deposit(client, b"1", b"2", key=queue)
    take(client, queue)
    assert client.ask(queue_delete(queue)).message_count == 1
    client.send(ack(1))
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


def test_a_queue_that_refuses_takes_one_more_then_none_until_it_has_sunk(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: with a limit of 10 it takes 11, and again when there are 8."""
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


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_too_many_messages_lose_the_oldest(client: Client, quorum: Declare, dead: str, overflow: str) -> None:
    """RabbitMQ 3.10.8 on the wire: reject-publish-dlx is accepted, and means drop-head."""
    queue = quorum(max_length=2, overflow=overflow, dead_letter_exchange="", dead_letter_routing_key=dead)
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    letters = take_all(client, dead, 2)
    assert bodies(letters) == [b"1", b"2"]
    assert {reason_of(letter) for letter in letters} == {b"maxlen"}
    assert bodies(take_all(client, queue, 2)) == [b"3", b"4"]


def test_too_many_bytes_lose_the_oldest(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum(max_length_bytes=10)
    deposit(client, b"11111", b"22222", b"3", b"4", key=queue)
    assert drain(client, queue) == [b"22222", b"3", b"4"]


@pytest.mark.parametrize(("limit", "dropped", "left"), [(5, b"1", [b"2", b"3"]), (None, b"2", [b"3", b"1"])], ids=str)
def test_what_comes_back_may_be_too_much(
    client: Client, quorum: Declare, dead: str, limit: int | None, dropped: bytes, left: list[bytes]
) -> None:
    """RabbitMQ 3.10.8 on the wire: the first in line goes, wherever the one that came back has gone."""
    more = {} if limit is None else {"delivery_limit": limit}
    queue = quorum(max_length=2, dead_letter_exchange="", dead_letter_routing_key=dead, **more)
    deposit(client, b"1", b"2", key=queue)
    take(client, queue)
    deposit(client, b"3", key=queue)
    client.send(nack(1))
    assert take(client, dead).body == dropped
    assert bodies(take_all(client, queue, 2)) == left


@pytest.mark.parametrize("of_queue", [True, False])
def test_messages_expire(client: Client, quorum: Declare, dead: str, of_queue: bool) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    ttl = {"message_ttl": 50} if of_queue else {}
    queue = quorum(dead_letter_exchange="", dead_letter_routing_key=dead, **ttl)
    own = BasicProperties(expiration="100000" if of_queue else "50")
    deposit(client, b"m", key=queue, properties=own)
    letter = take(client, dead)
    assert reason_of(letter) == b"expired"
    assert letter.properties.expiration is None


def test_an_unused_queue_expires(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire, where it may take seconds."""
    queue = name()
    client.ask(queue_declare(queue, durable=True, arguments={**QUORUM, "x-expires": 50}))
    pass_by(time.monotonic() + (12 if REFERENCE else 1))
    assert client.refusal(queue_declare(queue, passive=True)).startswith("channel 404")


# Dead letters at least once

AT_LEAST_ONCE = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish", "dead_letter_exchange": ""}


def test_dead_letters_at_least_once_arrive(client: Client, quorum: Declare, dead: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = quorum(**AT_LEAST_ONCE, dead_letter_routing_key=dead)
    deposit(client, b"1", b"2", key=queue)
    take(client, queue)
    client.send(BasicReject(1, False))
    letter = take(client, dead)
    assert (letter.body, reason_of(letter)) == (b"1", b"rejected")
    assert bodies(take_all(client, queue, 1)) == [b"2"]


def test_letters_that_nobody_takes_wait_and_count_as_messages_of_the_queue(
    client: Client, quorum: Declare, name: Name
) -> None:
    """RabbitMQ 3.10.8 on the wire: they are not ready, survive a purge, and use up the limit."""
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
def test_letters_wait_for_a_queue_that_is_full(client: Client, quorum: Declare, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: with at-most-once the second would be gone."""
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


def test_a_full_queue_that_refuses_loses_dead_letters_of_others(client: Client, quorum: Declare, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire, of classic and quorum queues: a letter is refused as any publish is."""
    full = name("full")
    client.ask(queue_declare(full, durable=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}))
    queue = quorum(dead_letter_exchange="", dead_letter_routing_key=full)
    deposit(client, b"1", b"2", key=queue)
    for tag in (1, 2):
        take(client, queue)
        client.send(BasicReject(tag, False))
    settle_down(client, full, 1)
    assert bodies(take_all(client, full, 1)) == [b"1"]
    client.send(get(full))
    assert isinstance(client.receive(), BasicGetEmpty)
    client.ask(queue_delete(full))


def test_retry_loops_count_deaths(client: Client, quorum: Declare, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: out by rejection, back by time to live."""
    waiting = name("wait")
    queue = quorum(dead_letter_exchange="", dead_letter_routing_key=waiting)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue, "x-message-ttl": 20}
    client.ask(queue_declare(waiting, durable=True, arguments=arguments))
    deposit(client, b"m", key=queue)
    for tag in (1, 2):
        take(client, queue)
        client.send(BasicReject(tag, False))
    headers: Any = take(client, queue).properties.headers
    deaths = [(death.value["reason"].value, death.value["count"].value) for death in headers["x-death"].value]
    assert deaths == [(b"expired", 2), (b"rejected", 2)]
    client.ask(queue_delete(waiting))


def test_drained_messages_are_those_published(client: Client, quorum: Declare) -> None:
    """RabbitMQ 3.10.8 on the wire: order and content."""
    queue = quorum()
    sent = [b"%d" % number * 10 for number in range(200)]
    deposit(client, *sent, key=queue)
    assert drain(client, queue) == sent
