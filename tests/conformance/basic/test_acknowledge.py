"""basic.get, ack, nack, reject, recover: what is settled, what comes back, and in which place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.method import Method
from broker.wire.methods import BasicDeliver, BasicGetEmpty, BasicGetOk, BasicRecover, BasicRecoverAsync, BasicReject
from harness.clients.contents import flags
from harness.clients.queue_steps import deposit, drain, drain_messages, fetch
from harness.clients.shorthand import ack, consume, exchange_declare, get, nack, prefetch, queue_delete
from harness.clients.wire_client import Client
from tests.conformance import Made


def test_get(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.get: one message, and how many are left."""
    client.send(get(queue))
    client.expect(BasicGetEmpty)
    deposit(client, b"1", b"2", key=queue)
    assert fetch(client, queue)[0].method == BasicGetOk(1, False, "", queue, 1)
    assert fetch(client, queue)[0].method == BasicGetOk(2, False, "", queue, 0)
    client.send(get(queue))
    client.expect(BasicGetEmpty)


@pytest.mark.parametrize("method", [get, consume], ids=["get", "consume"])
def test_from_no_queue(client: Client, name: Made, method: Callable[[str], Method]) -> None:
    queue = name()
    assert client.refusal(method(queue)) == f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/'"


def test_ack_of_one_and_of_many(client: Client, queue: str) -> None:
    """0-9-1 specification, basic.ack: multiple settles all up to and with the tag; the rest comes back at the end.

    Zero means all so far; with nothing outstanding it is no error (RabbitMQ 3.10.8 on the wire).
    """
    client.open_channel(2)
    deposit(client, b"1", b"2", b"3", b"4", b"5", key=queue)
    fetch(client, queue, 5, channel=2)
    client.send(ack(2), ack(3, multiple=True), channel=2)
    client.close_channel(2)
    assert drain(client, queue) == [b"4", b"5"]
    client.send(ack(0, multiple=True))
    deposit(client, b"1", b"2", key=queue)
    fetch(client, queue, 2)
    client.send(ack(0, multiple=True), ack(0, multiple=True), BasicRecover(True))
    client.receive()
    assert drain(client, queue) == []


@pytest.mark.parametrize(
    ("method", "tag"),
    [(ack(99), 99), (ack(0), 0), (ack(99, multiple=True), 99), (nack(99), 99), (nack(0), 0), (BasicReject(99, True), 99)],
    ids=str,
)  # fmt: skip
def test_an_unknown_tag(client: Client, method: Method, tag: int) -> None:
    assert client.refusal(method) == f"channel 406 PRECONDITION_FAILED - unknown delivery tag {tag}"


def test_tags_belong_to_their_channel(client: Client, queue: str) -> None:
    """0-9-1 specification, delivery-tag: each is settled once; they start again when the channel is opened again."""
    client.open_channel(2)
    deposit(client, b"1", b"2", key=queue)
    fetch(client, queue, 2)
    unknown = "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"
    assert client.refusal(ack(1), channel=2) == unknown
    client.send(ack(1))
    assert client.refusal(ack(1)) == unknown
    (message,) = fetch(client, queue)
    assert (message.body, message.method.delivery_tag, message.method.redelivered) == (b"2", 1, True)


def test_nack_of_many(client: Client, queue: str) -> None:
    """RabbitMQ's basic.nack: multiple as in basic.ack, 0 for all."""
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    fetch(client, queue, 3)
    client.send(nack(2, multiple=True))
    assert drain(client, queue) == [b"1", b"2", b"4"]
    client.send(nack(0, multiple=True))
    assert drain(client, queue) == [b"3"]


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
    """0-9-1 specification, basic.recover: everything unacknowledged on the channel comes back, in order.

    That of other channels does not. The asynchronous method has no answer.
    """
    client.open_channel(2)
    deposit(client, b"1", b"2", b"3", b"4", key=queue)
    fetch(client, queue, channel=2)
    fetch(client, queue, 3)
    client.send(ack(2))
    client.ask(BasicRecover(True))
    assert flags(drain_messages(client, queue)) == [(b"2", True), (b"4", True)]
    client.send(BasicRecoverAsync(True), channel=2)
    assert drain(client, queue, channel=2) == [b"1"]


def test_a_queue_deleted_takes_its_unacknowledged_messages(client: Client, queue: str) -> None:
    """An ack for a message of a deleted queue is no error."""
    deposit(client, b"1", key=queue)
    fetch(client, queue)
    client.ask(queue_delete(queue))
    client.send(ack(1))
    client.ask(exchange_declare("amq.direct", passive=True))
