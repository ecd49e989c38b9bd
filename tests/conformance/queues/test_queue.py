"""The queue class: declaring, binding, purging, deleting, and who may use an exclusive queue."""

from __future__ import annotations

import pytest

from broker.wire.methods import (
    BasicCancel,
    BasicGetEmpty,
    BasicGetOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
)
from harness.clients.queue_steps import deposit, drain, fetch
from harness.clients.shorthand import consume, get, nack, queue_bind, queue_declare, queue_delete, queue_unbind
from harness.clients.wire_client import Client
from tests.conformance import Connect, Made


def locked(queue: str) -> str:
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration."
    )
    return f"channel 405 {text[:255]}"


def test_declare_tells_counts(client: Client, declare: Made, name: Made) -> None:
    """0-9-1 specification, queue.declare-ok: messages ready and consumers active.

    A passive one compares nothing; a missing queue is 404. An empty name is a name here, whatever was declared last.
    """
    queue = declare()
    assert client.ask(queue_declare(queue)) == QueueDeclareOk(queue, 0, 0)
    deposit(client, b"x", b"y", key=queue)
    fetch(client, queue)
    assert client.ask(queue_declare(queue)) == QueueDeclareOk(queue, 1, 0)
    missing = name()
    client.ask(queue_declare(queue, passive=True, durable=True, arguments={"x-expires": 5}))
    assert client.refusal(queue_declare(missing, passive=True)) == (
        f"channel 404 NOT_FOUND - no queue '{missing}' in vhost '/'"
    )
    assert client.refusal(queue_declare("", passive=True)) == "channel 404 NOT_FOUND - no queue '' in vhost '/'"


def test_reserved_names_that_only_look(client: Client) -> None:
    """Only making one is reserved."""
    missing = "channel 404 NOT_FOUND - no queue 'amq.foo' in vhost '/'"
    assert client.refusal(queue_declare("amq.foo", passive=True)) == missing
    assert client.refusal(QueuePurge("amq.foo", False)) == missing
    assert client.ask(queue_delete("amq.foo")).message_count == 0


@pytest.mark.parametrize("raw", ["größe", "日本語", "with space and 'quotes'", "a" * 255, "line\r\nend"])
def test_names_of_every_kind(client: Client, name: Made, raw: str) -> None:
    """Any name up to 255 bytes that is UTF-8; line ends are dropped (strip_cr_lf)."""
    asked = f"{name('')}{raw}".encode()[:255].decode()
    queue = asked.replace("\r\n", "")
    assert client.ask(queue_declare(asked, exclusive=True)).queue == queue
    client.publish(b"x", key=queue)
    assert drain(client, queue) == [b"x"]


# --- exclusive ---


def test_an_exclusive_queue_is_closed_to_others(client: Client, connect: Connect, new_queue: Made) -> None:
    """Its methods are; anyone may publish, because that goes through an exchange."""
    queue, other = new_queue("amq.direct", "k"), connect()
    for method in (
        queue_declare(queue, exclusive=True),
        queue_declare(queue, passive=True),
        queue_bind(queue, "amq.direct", "k"),
        queue_unbind(queue, "amq.direct", "k"),
        QueuePurge(queue, False),
        queue_delete(queue),
        get(queue),
        consume(queue),
    ):
        assert other.refusal(method) == locked(queue), method
    client.ask(queue_declare(queue, exclusive=True))
    deposit(other, b"x", key=queue)
    assert drain(client, queue) == [b"x"]


def test_an_exclusive_queue_ends_with_its_connection(connect: Connect, name: Made) -> None:
    """0-9-1 specification, queue.declare; durable makes no difference (RabbitMQ 3.10.8 on the wire)."""
    owner, other, queue = connect(), connect(), name()
    owner.ask(queue_declare(queue, exclusive=True, durable=True))
    owner.send(ConnectionClose(200, "", 0, 0), channel=0)
    owner.expect(ConnectionCloseOk, channel=0)
    assert other.refusal(queue_declare(queue, passive=True)).startswith("channel 404")


# --- auto-delete ---


def test_an_auto_delete_queue_goes_with_its_last_consumer(client: Client, name: Made) -> None:
    """0-9-1 specification, queue.declare: what never had a consumer stays."""
    queue = name()
    client.ask(queue_declare(queue, auto_delete=True))
    client.publish(b"x", key=queue)
    assert drain(client, queue) == [b"x"]
    client.ask(consume(queue, "one"))
    client.ask(consume(queue, "two"))
    client.ask(BasicCancel("one", False))
    assert client.ask(queue_declare(queue, passive=True)).consumer_count == 1
    client.ask(BasicCancel("two", False))
    assert client.refusal(queue_declare(queue, passive=True)).startswith("channel 404")


# --- bind and unbind ---


def test_binding_what_is_not_there(client: Client, queue: str, name: Made) -> None:
    """0-9-1 specification, queue.bind; arguments tell bindings apart. Unbind of anything missing is fine since 3.2."""
    missing = name()
    for bound, exchange, what in ((missing, "amq.direct", "queue"), (queue, missing, "exchange"),
                                  (missing, missing, "exchange")):  # fmt: skip
        refused = f"channel 404 NOT_FOUND - no {what} '{missing}' in vhost '/'"
        assert client.refusal(queue_bind(bound, exchange, "k")) == refused
    client.ask(queue_unbind(queue, missing, "k"))
    client.ask(queue_unbind(queue, "amq.direct", "never bound"))
    client.ask(queue_unbind(missing, "amq.direct", "k"))
    key = name("k")
    for _ in range(2):
        client.ask(queue_bind(queue, "amq.direct", key))
    client.ask(queue_bind(queue, "amq.direct", key, arguments={"a": 1}))
    client.ask(queue_unbind(queue, "amq.direct", key))
    client.publish(b"x", exchange="amq.direct", key=key)
    assert drain(client, queue) == [b"x"]
    client.ask(queue_unbind(queue, "amq.direct", key, arguments={"a": 1}))
    client.publish(b"x", exchange="amq.direct", key=key)
    assert drain(client, queue) == []


def test_an_empty_name_means_the_last_declared_queue(client: Client) -> None:
    """0-9-1 specification, queue.bind; RabbitMQ keeps to it for every method that names a queue.

    A queue without a name gets one: `amq.gen-` and 22 characters of URL-safe base64.
    """
    for method in (
        queue_delete(""),
        get(""),
        consume(""),
        queue_bind("", "amq.direct", "k"),
        queue_unbind("", "amq.direct", "k"),
        QueuePurge("", False),
    ):
        assert client.refusal(method) == "channel 404 NOT_FOUND - no previously declared queue", method
    first = client.ask(queue_declare("", exclusive=True))
    second = client.ask(queue_declare("", exclusive=True))
    assert first.queue.startswith("amq.gen-")
    assert len(first.queue) == len("amq.gen-") + 22
    assert first.queue != second.queue
    queue = client.ask(queue_declare("", exclusive=True)).queue
    client.send(queue_bind("", "amq.direct", ""))
    client.expect(QueueBindOk)
    client.publish(b"x", exchange="amq.direct", key=queue)
    client.publish(b"y", key=queue)
    client.publish(b"z", key=queue)
    client.send(get("", no_ack=True))
    assert client.expect_message(BasicGetOk).body == b"x"
    assert client.ask(QueuePurge("", False)).message_count == 2
    client.ask(queue_unbind("", "amq.direct", ""))
    client.publish(b"x", exchange="amq.direct", key=queue)
    client.send(get(""))
    client.expect(BasicGetEmpty)
    assert client.ask(queue_delete("")).message_count == 0


# --- purge and delete ---


def test_purge_leaves_what_is_unacknowledged(client: Client, queue: str, name: Made) -> None:
    """0-9-1 specification, queue.purge and queue.delete: what is counted, and the conditions."""
    deposit(client, b"1", b"2", b"3", key=queue)
    fetch(client, queue)
    assert client.ask(QueuePurge(queue, False)).message_count == 2
    client.send(nack(1))
    assert drain(client, queue) == [b"1"]
    queue = name()
    client.ask(queue_declare(queue))
    deposit(client, b"x", b"y", key=queue)
    assert client.ask(queue_declare(queue, passive=True)).message_count == 2
    assert client.refusal(queue_delete(queue, if_empty=True)) == (
        f"channel 406 PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
    )
    client.ask(consume(queue, "t"), channel=1)
    client.receive()
    client.receive()
    assert client.refusal(QueueDelete(queue, True, False, False)) == (
        f"channel 406 PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
    )
    assert client.ask(queue_delete(queue, if_unused=True)).message_count == 2


def test_purge_and_delete_without_waiting(client: Client, name: Made) -> None:
    """0-9-1 specification, no-wait; a deleted queue loses its bindings. A queue that is not there can be deleted, not
    purged."""
    queue, key = name(), name("k")
    client.ask(queue_declare(queue))
    client.ask(queue_bind(queue, "amq.direct", key))
    client.publish(b"x", key=queue)
    client.send(QueuePurge(queue, True))
    assert drain(client, queue) == []
    client.send(queue_delete(queue, no_wait=True))
    missing = f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/'"
    assert client.refusal(queue_declare(queue, passive=True)) == missing
    assert client.refusal(QueuePurge(queue, False)) == missing
    assert client.ask(queue_delete(queue)).message_count == 0
    client.ask(queue_declare(queue, exclusive=True))
    client.publish(b"y", exchange="amq.direct", key=key)
    assert drain(client, queue) == []


def test_declaring_exclusive_queues_again(client: Client, name: Made, declare: Made) -> None:
    """Exclusive wins over durable, so both are equal; another queue is no exclusive one. No-wait still tells errors."""
    queue, shared = name(), declare()
    client.ask(queue_declare(queue, exclusive=True, durable=True))
    client.ask(queue_declare(queue, exclusive=True, durable=False))
    assert client.refusal(queue_declare(shared, exclusive=True)) == locked(shared)
    client.send(queue_declare(queue, exclusive=True, auto_delete=True, no_wait=True))
    assert client.closing(QueueDeclare).startswith("channel 406 PRECONDITION_FAILED - inequivalent arg 'auto_delete'")
