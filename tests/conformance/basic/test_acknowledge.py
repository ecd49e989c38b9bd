"""basic.get, ack, nack, reject, recover: what is settled, what comes back, and in which place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.method import Method
from broker.wire.methods import (
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
)
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import ack, consume, exchange_declare, get, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client

Name = Callable[..., str]
Connect = Callable[..., Client]


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def take(client: Client, queue: str, count: int) -> list[bytes]:
    """Get so many messages and leave them unacknowledged."""
    bodies = []
    for _ in range(count):
        client.send(get(queue))
        bodies.append(client.expect_message(BasicGetOk).body)
    return bodies


def test_get(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.get: one message, and how many are left."""
    client.send(get(queue))
    client.expect(BasicGetEmpty)
    deposit(client, b"1", b"2", key=queue)
    client.send(get(queue))
    assert client.expect_message(BasicGetOk).method == BasicGetOk(1, False, "", queue, 1)
    client.send(get(queue))
    assert client.expect_message(BasicGetOk).method == BasicGetOk(2, False, "", queue, 0)
    client.send(get(queue))
    client.expect(BasicGetEmpty)


def test_get_from_no_queue(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    assert client.refusal(get(queue)) == f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/'"


def test_ack_of_one_and_of_many(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.ack: multiple settles all up to and with the tag; the rest comes back at the end."""
    client.open_channel(2)
    deposit(client, b"1", b"2", b"3", b"4", b"5", key=queue)
    for _ in range(5):
        client.send(get(queue), channel=2)
        client.expect_message(BasicGetOk, channel=2)
    client.send(ack(2), ack(3, multiple=True), channel=2)
    client.close_channel(2)
    assert drain(client, queue) == [b"4", b"5"]


def test_ack_zero_means_all_so_far(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.ack; with nothing outstanding it is no error (RabbitMQ 3.10.8 on the wire)."""
    client.send(ack(0, multiple=True))
    deposit(client, b"1", b"2", key=queue)
    take(client, queue, 2)
    client.send(ack(0, multiple=True), ack(0, multiple=True), BasicRecover(True))
    client.receive()
    assert drain(client, queue) == []


@pytest.mark.parametrize(
    ("method", "tag"),
    [(ack(99), 99), (ack(0), 0), (ack(99, multiple=True), 99), (nack(99), 99), (nack(0), 0), (BasicReject(99, True), 99)],
    ids=str,
)  # fmt: skip
def test_an_unknown_tag(client: Client, method: Method, tag: int) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(method) == f"channel 406 PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_a_tag_is_settled_once(client: Client, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    deposit(client, b"1", b"2", key=queue)
    take(client, queue, 2)
    client.send(ack(1))
    assert client.refusal(ack(1)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"


def test_tags_belong_to_their_channel(client: Client, queue: str) -> None:
    """0-9-1 specification, delivery-tag: local to the channel; they start again when it is opened again."""
    client.open_channel(2)
    deposit(client, b"1", key=queue)
    take(client, queue, 1)
    assert client.refusal(ack(1), channel=2) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"
    client.close_channel()
    client.open_channel()
    client.send(get(queue))
    message = client.expect_message(BasicGetOk)
    assert (message.method.delivery_tag, message.method.redelivered) == (1, True)


@pytest.mark.parametrize("method", [nack(1), BasicReject(1, True)], ids=["nack", "reject"])
def test_requeueing_puts_a_message_in_its_old_place(client: Client, queue: str, method: Method) -> None:
    """RabbitMQ: back to the original position; marked as redelivered."""
    deposit(client, b"1", b"2", b"3", key=queue)
    take(client, queue, 1)
    client.send(method)
    messages = drain_messages(client, queue)
    assert [(message.body, message.method.redelivered) for message in messages] == [
        (b"1", True), (b"2", False), (b"3", False),
    ]  # fmt: skip


def test_requeueing_in_any_order_keeps_the_first_order(client: Client, queue: str) -> None:
    """RabbitMQ: each message goes back to where it stood."""
    deposit(client, *(str(number).encode() for number in range(8)), key=queue)
    take(client, queue, 6)
    client.send(nack(4), nack(2), BasicReject(6, True), nack(1), ack(3), BasicReject(5, True))
    assert drain(client, queue) == [b"0", b"1", b"3", b"4", b"5", b"6", b"7"]


def test_nack_of_many(client: Client, queue: str) -> None:
    """RabbitMQ's basic.nack: multiple as in basic.ack, 0 for all."""
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    take(client, queue, 3)
    client.send(nack(2, multiple=True))
    assert drain(client, queue) == [b"1", b"2", b"4"]
    client.send(nack(0, multiple=True))
    assert drain(client, queue) == [b"3"]


@pytest.mark.parametrize("method", [nack(1, requeue=False), BasicReject(1, False)], ids=["nack", "reject"])
def test_what_is_not_requeued_is_gone(client: Client, queue: str, method: Method) -> None:
    """0-9-1 specification, basic.reject."""
    deposit(client, b"1", b"2", key=queue)
    take(client, queue, 1)
    client.send(method, BasicRecover(True))
    client.receive()
    assert drain(client, queue) == [b"2"]


def test_a_requeued_message_may_come_to_the_same_consumer(client: Client, queue: str) -> None:
    """RabbitMQ: nothing keeps a requeued message from its last consumer."""
    client.ask(prefetch(1))
    client.ask(consume(queue, "t"))
    client.publish(b"1", key=queue)
    client.publish(b"2", key=queue)
    assert client.expect_message(BasicDeliver).body == b"1"
    client.send(nack(1))
    again = client.expect_message(BasicDeliver)
    assert (again.body, again.method.redelivered, again.method.delivery_tag) == (b"1", True, 2)


def test_recover(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.recover: everything unacknowledged on the channel comes back, in order."""
    deposit(client, b"1", b"2", b"3", key=queue)
    take(client, queue, 3)
    client.send(ack(2))
    client.ask(BasicRecover(True))
    messages = drain_messages(client, queue)
    assert [(message.body, message.method.redelivered) for message in messages] == [(b"1", True), (b"3", True)]


def test_recover_async_has_no_answer(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.recover-async."""
    deposit(client, b"1", key=queue)
    take(client, queue, 1)
    client.send(BasicRecoverAsync(True))
    assert drain(client, queue) == [b"1"]


@pytest.mark.parametrize("method", [BasicRecover(False), BasicRecoverAsync(False)], ids=["recover", "recover-async"])
def test_recover_to_the_same_consumer_is_not_offered(client: Client, method: Method) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(method) == "connection 540 NOT_IMPLEMENTED - requeue=false"


def test_recover_is_of_one_channel(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.recover."""
    client.open_channel(2)
    deposit(client, b"1", b"2", key=queue)
    client.send(get(queue), channel=2)
    client.expect_message(BasicGetOk, channel=2)
    take(client, queue, 1)
    client.ask(BasicRecover(True))
    assert drain(client, queue) == [b"2"]


def test_a_queue_deleted_takes_its_unacknowledged_messages(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: an ack for a message of a deleted queue is no error."""
    queue = name()
    client.ask(queue_declare(queue))
    deposit(client, b"1", key=queue)
    take(client, queue, 1)
    client.ask(queue_delete(queue))
    client.send(ack(1))
    client.ask(exchange_declare("amq.direct", passive=True))


def test_order_holds_through_a_long_queue(client: Client, queue: str) -> None:
    """0-9-1 specification, 4.7."""
    bodies = [str(number).encode() for number in range(1000)]
    deposit(client, *bodies, key=queue)
    client.ask(prefetch(50))
    client.ask(consume(queue, "t"))
    received = []
    for number in range(1, 1001):
        received.append(client.expect_message(BasicDeliver).body)
        if number % 25 == 0:
            client.send(ack(number, multiple=True))
    assert received == bodies
