"""Transactions: the rules of RabbitMQ since 2.8.0 (its page on broker semantics)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.method import Method
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicRecover,
    BasicReject,
    BasicReturn,
    TxCommit,
    TxRollback,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client

Name = Callable[..., str]


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    """A queue, channel 1 in tx mode, channel 2 not."""
    client.open_channel(2)
    client.ask(TxSelect())
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


@pytest.mark.parametrize("method", [TxCommit(), TxRollback()])
def test_a_channel_that_is_not_transactional(client: Client, method: Method) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(method) == "channel 406 PRECONDITION_FAILED - channel is not transactional"


def test_selecting_twice(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: no error."""
    client.ask(TxSelect())
    client.ask(TxSelect())
    client.ask(TxCommit())
    client.ask(TxRollback())


def test_publishes_wait_for_the_commit(client: Client, queue: str) -> None:
    """Broker semantics: publish takes effect at commit, in order."""
    for body in (b"1", b"2"):
        client.publish(body, key=queue)
    client.send(get(queue))
    client.expect(BasicGetEmpty)
    client.ask(TxCommit())
    assert drain(client, queue, channel=2) == [b"1", b"2"]


def test_persistent_publishes_to_a_durable_queue(client: Client, name: Name) -> None:
    """Broker semantics: commit-ok comes when they are safe."""
    queue = name()
    client.ask(queue_declare(queue, durable=True))
    client.ask(TxSelect())
    for body in (b"1", b"2"):
        client.publish(body, key=queue, properties=BasicProperties(delivery_mode=2))
    client.ask(TxCommit())
    assert drain(client, queue) == [b"1", b"2"]
    client.ask(queue_delete(queue))


def test_a_rollback_forgets_publishes(client: Client, queue: str) -> None:
    """Broker semantics; a new transaction begins at once."""
    client.publish(b"1", key=queue)
    client.ask(TxRollback())
    client.publish(b"2", key=queue)
    client.ask(TxCommit())
    assert drain(client, queue, channel=2) == [b"2"]


def test_a_closed_channel_forgets_its_transaction(client: Client, queue: str) -> None:
    """Broker semantics: closing without commit is a rollback."""
    client.publish(b"1", key=queue)
    client.close_channel()
    assert drain(client, queue, channel=2) == []


@pytest.mark.parametrize("settle", [ack(1), nack(1, requeue=False), BasicReject(1, False)], ids=str)
def test_settling_waits_for_the_commit(client: Client, queue: str, settle: Method) -> None:
    """Broker semantics: ack, nack and reject take effect at commit; a rollback leaves the message unsettled."""
    deposit(client, b"1", key=queue)
    client.send(get(queue))
    client.expect_message(BasicGetOk)
    client.send(settle)
    client.ask(TxRollback())
    client.ask(BasicRecover(True))
    assert drain(client, queue, channel=2) == [b"1"]
    deposit(client, b"2", key=queue)
    client.send(get(queue))
    tag = client.expect_message(BasicGetOk).method.delivery_tag
    client.send(BasicAck(tag, False))
    client.ask(TxCommit())
    client.ask(BasicRecover(True))
    assert drain(client, queue, channel=2) == []


def test_requeueing_waits_for_the_commit(client: Client, queue: str) -> None:
    """Broker semantics: also when the message is to go back."""
    deposit(client, b"1", key=queue)
    client.send(get(queue))
    client.expect_message(BasicGetOk)
    client.send(nack(1))
    client.send(get(queue))
    client.expect(BasicGetEmpty)
    client.ask(TxCommit())
    assert drain(client, queue, channel=2) == [b"1"]


def test_a_rollback_does_not_bring_messages_back(client: Client, queue: str) -> None:
    """Broker semantics: what was delivered stays unacknowledged on the channel until recover, and may be acked."""
    deposit(client, b"1", key=queue)
    client.send(get(queue))
    client.expect_message(BasicGetOk)
    client.send(ack(1))
    client.ask(TxRollback())
    assert drain(client, queue, channel=2) == []
    client.send(ack(1))
    client.ask(TxCommit())
    client.close_channel()
    assert drain(client, queue, channel=2) == []


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


def test_an_unknown_tag_is_told_at_once(client: Client, queue: str) -> None:
    """Broker semantics since 2.8.0: acks are checked when they arrive."""
    assert client.refusal(ack(7)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 7"
    client.ask(TxSelect())
    deposit(client, b"1", key=queue)
    client.send(get(queue))
    client.expect_message(BasicGetOk)
    client.send(ack(1))
    assert client.refusal(ack(1)) == "channel 406 PRECONDITION_FAILED - unknown delivery tag 1"


def test_a_missing_exchange_is_told_at_once(client: Client, queue: str, name: Name) -> None:
    """Broker semantics since 2.8.0: the channel closes when the publish arrives, and the transaction is gone."""
    exchange = name("x")
    client.publish(b"1", key=queue)
    client.publish(b"2", exchange=exchange)
    assert client.closing(BasicPublish) == f"channel 404 NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    assert drain(client, queue, channel=2) == []


def test_returns_come_with_the_commit(client: Client, queue: str, name: Name) -> None:
    """Broker semantics: unroutable mandatory messages are returned before commit-ok."""
    client.publish(b"x", key=name(), mandatory=True)
    client.send(TxCommit())
    items = [client.receive(), client.receive()]
    assert [getattr(item, "NAME", None) or item.method.NAME for item in items] == [  # type: ignore[union-attr]
        BasicReturn.NAME,
        "tx.commit-ok",
    ]


def test_routing_happens_at_the_publish(client: Client, queue: str, name: Name) -> None:
    """Broker semantics since 2.8.0: bindings count as they were when the message arrived."""
    key = name("k")
    client.publish(b"x", exchange="amq.direct", key=key)
    client.ask(queue_bind(queue, "amq.direct", key), channel=2)
    client.ask(TxCommit())
    assert drain(client, queue, channel=2) == []


def test_declares_are_not_part_of_a_transaction(client: Client, queue: str, name: Name) -> None:
    """Broker semantics: only publishes and settling are."""
    other = name()
    client.ask(queue_declare(other, exclusive=True))
    client.ask(TxRollback())
    client.ask(queue_declare(other, passive=True), channel=2)
