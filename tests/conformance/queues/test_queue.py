"""The queue class: declaring, binding, purging, deleting, and who may use an exclusive queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.method import Method
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
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import (
    consume,
    exchange_declare,
    get,
    nack,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
Connect = Callable[..., Client]


def locked(queue: str) -> str:
    """RabbitMQ 3.10.8 on the wire."""
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration."
    )
    return f"channel 405 {text[:255]}"


def test_a_queue_without_a_name_gets_one(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: amq.gen- and 22 characters of URL-safe base64."""
    first = client.ask(queue_declare("", exclusive=True))
    second = client.ask(queue_declare("", exclusive=True))
    assert first.queue.startswith("amq.gen-")
    assert len(first.queue) == len("amq.gen-") + 22
    assert first.queue != second.queue


def test_declare_tells_counts(client: Client, name: Name) -> None:
    """0-9-1 specification, queue.declare-ok: messages ready and consumers active."""
    queue = name()
    assert client.ask(queue_declare(queue)) == QueueDeclareOk(queue, 0, 0)
    deposit(client, b"x", b"y", key=queue)
    client.send(get(queue))
    client.expect_message(BasicGetOk)
    assert client.ask(queue_declare(queue)) == QueueDeclareOk(queue, 1, 0)
    client.ask(queue_delete(queue))


def test_a_passive_declare(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: nothing is compared; a missing queue is 404."""
    queue, missing = name(), name()
    client.ask(queue_declare(queue, auto_delete=True))
    client.ask(queue_declare(queue, passive=True, durable=True, arguments={"x-expires": 5}))
    assert client.refusal(queue_declare(missing, passive=True)) == (
        f"channel 404 NOT_FOUND - no queue '{missing}' in vhost '/'"
    )
    client.ask(queue_delete(queue))


def test_a_passive_declare_takes_no_short_cut(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: here an empty name is a name, whatever was declared last."""
    client.ask(queue_declare("", exclusive=True))
    assert client.refusal(queue_declare("", passive=True)) == "channel 404 NOT_FOUND - no queue '' in vhost '/'"


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ({}, {"durable": True}, "'durable' {q}: received 'true' but current is 'false'"),
        ({}, {"auto_delete": True}, "'auto_delete' {q}: received 'true' but current is 'false'"),
        ({}, {"arguments": {"x-message-ttl": 1000}},
         "'x-message-ttl' {q}: received the value '1000' of type 'signedint' but current is none"),
        ({"arguments": {"x-message-ttl": 1000}}, {"arguments": {"x-message-ttl": 2000}},
         "'x-message-ttl' {q}: received '2000' but current is '1000'"),
        ({"arguments": {"x-message-ttl": 1000}}, {},
         "'x-message-ttl' {q}: received none but current is the value '1000' of type 'signedint'"),
        ({}, {"durable": True, "auto_delete": True},
         "'durable' {q}: received 'true' but current is 'false'"),
        ({"arguments": {"x-dead-letter-exchange": "a"}}, {"arguments": {"x-dead-letter-exchange": "b"}},
         "'x-dead-letter-exchange' {q}: received 'b' but current is 'a'"),
    ],
)  # fmt: skip
def test_an_unequal_declare(
    client: Client, name: Name, first: dict[str, Any], second: dict[str, Any], text: str
) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue, **first))
    where = f"for queue '{queue}' in vhost '/'"
    assert client.refusal(queue_declare(queue, **second)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg {text.format(q=where)}"
    )
    client.ask(queue_delete(queue))


def test_an_unequal_exclusive_flag(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue))
    assert client.refusal(queue_declare(queue, exclusive=True)) == locked(queue)
    client.ask(queue_delete(queue))


def test_reserved_names(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire; 0-9-1 specification, queue.declare."""
    assert client.refusal(queue_declare("amq.foo")) == (
        "channel 403 ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'"
    )


def test_reserved_names_that_only_look(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: only making one is reserved."""
    missing = "channel 404 NOT_FOUND - no queue 'amq.foo' in vhost '/'"
    assert client.refusal(queue_declare("amq.foo", passive=True)) == missing
    assert client.refusal(QueuePurge("amq.foo", False)) == missing
    assert client.ask(queue_delete("amq.foo")).message_count == 0


def test_a_line_end_in_a_name_is_dropped(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire (strip_cr_lf)."""
    queue = name()
    assert client.ask(queue_declare(f"{queue[:3]}\r\n{queue[3:]}", exclusive=True)).queue == queue


@pytest.mark.parametrize("raw", ["größe", "日本語", "with space and 'quotes'", "a" * 255])
def test_names_of_every_kind(client: Client, name: Name, raw: str) -> None:
    """RabbitMQ 3.10.8 on the wire: any name up to 255 bytes that is UTF-8."""
    queue = f"{name('')}{raw}".encode()[:255].decode()
    assert client.ask(queue_declare(queue, exclusive=True)).queue == queue
    client.publish(b"x", key=queue)
    assert drain(client, queue) == [b"x"]


# --- exclusive ---


@pytest.mark.parametrize(
    "method",
    [
        lambda queue: queue_declare(queue, exclusive=True),
        lambda queue: queue_declare(queue, passive=True),
        lambda queue: queue_bind(queue, "amq.direct", "k"),
        lambda queue: queue_unbind(queue, "amq.direct", "k"),
        lambda queue: QueuePurge(queue, False),
        lambda queue: queue_delete(queue),
        lambda queue: get(queue),
        lambda queue: consume(queue),
    ],
    ids=["declare", "passive declare", "bind", "unbind", "purge", "delete", "get", "consume"],
)
def test_an_exclusive_queue_is_closed_to_others(connect: Connect, name: Name, method: Callable[[str], Method]) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    owner, other, queue = connect(), connect(), name()
    owner.ask(queue_declare(queue, exclusive=True))
    owner.ask(queue_bind(queue, "amq.direct", "k"))
    assert other.refusal(method(queue)) == locked(queue)
    owner.ask(queue_declare(queue, exclusive=True))


def test_anyone_may_publish_to_an_exclusive_queue(connect: Connect, name: Name) -> None:
    """RabbitMQ: exclusivity is about the queue's methods, publishing goes through an exchange."""
    owner, other, queue = connect(), connect(), name()
    owner.ask(queue_declare(queue, exclusive=True))
    other.publish(b"x", key=queue)
    other.ask(exchange_declare("amq.direct", passive=True))
    owner.send(consume(queue, "t", no_ack=True))
    owner.receive()
    assert owner.receive().body == b"x"  # type: ignore[union-attr]


def test_an_exclusive_queue_ends_with_its_connection(connect: Connect, name: Name) -> None:
    """0-9-1 specification, queue.declare; durable makes no difference (RabbitMQ 3.10.8 on the wire)."""
    owner, other, queue = connect(), connect(), name()
    owner.ask(queue_declare(queue, exclusive=True, durable=True))
    owner.send_raw(b"")

    owner.send(ConnectionClose(200, "", 0, 0), channel=0)
    owner.expect(ConnectionCloseOk, channel=0)
    assert other.refusal(queue_declare(queue, passive=True)).startswith("channel 404")


# --- auto-delete ---


def test_an_auto_delete_queue_goes_with_its_last_consumer(client: Client, name: Name) -> None:
    """0-9-1 specification, queue.declare."""

    queue = name()
    client.ask(queue_declare(queue, auto_delete=True))
    client.ask(consume(queue, "one"))
    client.ask(consume(queue, "two"))
    client.ask(BasicCancel("one", False))
    assert client.ask(queue_declare(queue, passive=True)).consumer_count == 1
    client.ask(BasicCancel("two", False))
    assert client.refusal(queue_declare(queue, passive=True)).startswith("channel 404")


def test_an_auto_delete_queue_without_consumers_stays(client: Client, name: Name) -> None:
    """0-9-1 specification, queue.declare: never had a consumer, never deleted."""
    queue = name()
    client.ask(queue_declare(queue, auto_delete=True))
    client.publish(b"x", key=queue)
    client.send(get(queue, no_ack=True))
    client.expect_message(BasicGetOk)
    assert client.ask(queue_delete(queue)).message_count == 0


# --- bind and unbind ---


def test_binding_what_is_not_there(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; unbind of anything missing is fine since 3.2."""
    queue, missing = name(), name()
    client.ask(queue_declare(queue, exclusive=True))
    assert client.refusal(queue_bind(missing, "amq.direct", "k")) == (
        f"channel 404 NOT_FOUND - no queue '{missing}' in vhost '/'"
    )
    assert client.refusal(queue_bind(queue, missing, "k")) == (
        f"channel 404 NOT_FOUND - no exchange '{missing}' in vhost '/'"
    )
    assert client.refusal(queue_bind(missing, missing, "k")) == (
        f"channel 404 NOT_FOUND - no exchange '{missing}' in vhost '/'"
    )
    client.ask(queue_unbind(queue, missing, "k"))
    client.ask(queue_unbind(queue, "amq.direct", "never bound"))
    client.ask(queue_unbind(missing, "amq.direct", "k"))


def test_the_same_binding_twice_is_one(client: Client, name: Name) -> None:
    """0-9-1 specification, queue.bind; arguments tell bindings apart."""
    queue, key = name(), name("k")
    client.ask(queue_declare(queue, exclusive=True))
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
    """0-9-1 specification, queue.bind; RabbitMQ keeps to it for every method that names a queue."""
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


@pytest.mark.parametrize(
    "method",
    [
        queue_delete(""),
        get(""),
        consume(""),
        queue_bind("", "amq.direct", "k"),
        queue_unbind("", "amq.direct", "k"),
        QueuePurge("", False),
    ],
    ids=lambda method: method.NAME,
)  # fmt: skip
def test_an_empty_name_with_nothing_declared(client: Client, method: Method) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(method) == "channel 404 NOT_FOUND - no previously declared queue"


# --- purge and delete ---


def test_purge_leaves_what_is_unacknowledged(client: Client, name: Name) -> None:
    """0-9-1 specification, queue.purge."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True))
    for body in (b"1", b"2", b"3"):
        client.publish(body, key=queue)
    client.send(get(queue))
    tag = client.expect_message(BasicGetOk).method.delivery_tag
    assert client.ask(QueuePurge(queue, False)).message_count == 2
    client.send(nack(tag))
    assert drain(client, queue) == [b"1"]


def test_purge_and_delete_without_waiting(client: Client, name: Name) -> None:
    """0-9-1 specification, no-wait."""
    queue = name()
    client.ask(queue_declare(queue))
    client.publish(b"x", key=queue)
    client.send(QueuePurge(queue, True))
    assert drain(client, queue) == []
    client.send(queue_delete(queue, no_wait=True))
    assert client.refusal(queue_declare(queue, passive=True)).startswith("channel 404")


def test_what_is_missing_cannot_be_purged_but_deleted(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    assert client.refusal(QueuePurge(queue, False)) == f"channel 404 NOT_FOUND - no queue '{queue}' in vhost '/'"
    assert client.ask(queue_delete(queue)).message_count == 0


def test_delete_counts_and_its_conditions(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
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


def test_a_deleted_queue_loses_its_bindings(client: Client, name: Name) -> None:
    """0-9-1 specification, queue.delete."""
    queue, key = name(), name("k")
    client.ask(queue_declare(queue))
    client.ask(queue_bind(queue, "amq.direct", key))
    client.publish(b"x", key=queue)
    client.ask(queue_delete(queue))
    client.ask(queue_declare(queue, exclusive=True))
    client.publish(b"y", exchange="amq.direct", key=key)
    assert drain(client, queue) == []


def test_declare_without_waiting_still_tells_errors(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True))
    client.send(queue_declare(queue, exclusive=True, auto_delete=True, no_wait=True))
    assert client.closing(QueueDeclare).startswith("channel 406 PRECONDITION_FAILED - inequivalent arg 'auto_delete'")


def test_a_durable_exclusive_queue_is_a_transient_one(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: exclusive wins, so the two declares are equal."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True, durable=True))
    client.ask(queue_declare(queue, exclusive=True, durable=False))
