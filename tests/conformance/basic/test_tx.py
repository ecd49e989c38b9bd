"""Transactions: the rules of RabbitMQ since 2.8.0 (its page on broker semantics)."""

from __future__ import annotations

import pytest

from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetEmpty,
    BasicPublish,
    BasicRecover,
    BasicReject,
    BasicReturn,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxSelect,
)
from harness.clients.queue_steps import deposit, drain, fetch
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_bind, queue_declare
from harness.clients.wire_client import Client
from tests.conformance import Made


@pytest.fixture
def queue(client: Client, new_queue: Made) -> str:
    """A queue, channel 1 in tx mode, channel 2 not."""
    client.open_channel(2)
    client.ask(TxSelect())
    return new_queue()


@pytest.fixture
def fetched(client: Client, queue: str) -> str:
    """The queue; its one message was fetched in the transaction, with tag 1."""
    deposit(client, b"1", key=queue)
    fetch(client, queue)
    return queue


@pytest.mark.parametrize("method", [TxCommit(), TxRollback()])
def test_a_channel_that_is_not_transactional(client: Client, method: Method) -> None:
    assert client.refusal(method) == "channel 406 PRECONDITION_FAILED - channel is not transactional"


def test_publishes_take_effect_at_the_commit(client: Client, queue: str) -> None:
    """Broker semantics: in order. A rollback forgets them, and so does closing; selecting twice is no error."""
    client.ask(TxSelect())
    for body in (b"1", b"2"):
        client.publish(body, key=queue)
    client.send(get(queue))
    client.expect(BasicGetEmpty)
    client.ask(TxCommit())
    client.publish(b"undone", key=queue)
    client.ask(TxRollback())
    client.publish(b"3", key=queue)
    client.ask(TxCommit())
    client.publish(b"forgotten", key=queue)
    client.close_channel()
    assert drain(client, queue, channel=2) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("settle", [ack(1), nack(1, requeue=False), BasicReject(1, False)], ids=str)
def test_settling_waits_for_the_commit(client: Client, fetched: str, settle: Method) -> None:
    """Broker semantics: ack, nack and reject take effect at commit; a rollback leaves the message unsettled."""
    client.send(settle)
    client.ask(TxRollback())
    client.ask(BasicRecover(True))
    assert drain(client, fetched, channel=2) == [b"1"]
    deposit(client, b"2", key=fetched)
    tag = fetch(client, fetched)[0].method.delivery_tag
    client.send(BasicAck(tag, False))
    client.ask(TxCommit())
    client.ask(BasicRecover(True))
    assert drain(client, fetched, channel=2) == []


def test_requeueing_waits_for_the_commit(client: Client, fetched: str) -> None:
    """Broker semantics. After a rollback the message is still out, and may be settled again."""
    client.send(nack(1), get(fetched))
    client.expect(BasicGetEmpty)
    client.ask(TxRollback())
    assert drain(client, fetched, channel=2) == []
    client.send(nack(1))
    client.ask(TxCommit())
    assert drain(client, fetched, channel=2) == [b"1"]


def test_credit_comes_back_at_the_commit(client: Client, queue: str) -> None:
    """Broker semantics: acks in a transaction free the prefetch window only when they take effect."""
    client.ask(prefetch(1))
    client.ask(consume(queue, "t"))
    deposit(client, b"1", b"2", key=queue)
    assert client.expect_message(BasicDeliver).body == b"1"
    client.send(ack(1))
    assert client.ask(queue_declare(queue, passive=True), channel=2).message_count == 1
    assert client.arrived() == []
    client.send(TxCommit())
    items = [client.receive(), client.receive()]
    assert {type(item).__name__ for item in items} == {"Message", "TxCommitOk"}


def test_mistakes_are_told_at_once(client: Client, queue: str, name: Made) -> None:
    """Broker semantics since 2.8.0: tags and exchanges are looked at on arrival; with the channel the rest is gone."""
    assert client.refusal(ack(7)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 7"
    client.ask(TxSelect())
    deposit(client, b"1", key=queue)
    fetch(client, queue)
    client.send(ack(1))
    assert client.refusal(ack(1)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"
    assert drain(client, queue, channel=2) == [b"1"]
    exchange = name("x")
    client.ask(TxSelect())
    client.publish(b"1", key=queue)
    client.publish(b"2", exchange=exchange)
    assert client.closing(BasicPublish) == f"channel 404 NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    assert drain(client, queue, channel=2) == []


def test_routing_and_declarations_do_not_wait(client: Client, queue: str, name: Made) -> None:
    """Broker semantics since 2.8.0: bindings count as they were at the publish. Returns come before commit-ok."""
    key, other = name("k"), name()
    client.ask(queue_declare(other, exclusive=True))
    client.ask(TxRollback())
    client.ask(queue_declare(other, passive=True), channel=2)
    client.publish(b"x", exchange="amq.direct", key=key, mandatory=True)
    client.ask(queue_bind(queue, "amq.direct", key), channel=2)
    client.send(TxCommit())
    assert client.expect_message(BasicReturn).body == b"x"
    client.expect(TxCommitOk)
    assert drain(client, queue, channel=2) == []
