"""The exchange class: declaring, deleting, binding exchanges to each other, and what may not be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.methods import BasicPublish, BasicReturn, ExchangeDeclare
from harness.clients.contents import with_headers
from harness.clients.queue_steps import drain
from harness.clients.shorthand import (
    exchange_bind,
    exchange_declare,
    exchange_delete,
    exchange_unbind,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
Connect = Callable[..., Client]
DEFAULT_EXCHANGE = "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange"


@pytest.mark.parametrize(
    "kind",
    [
        *("direct", "fanout", "topic", "headers"),
        *("x-consistent-hash", "x-modulus-hash", "x-random", "x-recent-history"),
    ],
)
def test_every_type_is_declared_and_found(client: Client, name: Name, kind: str) -> None:
    """0-9-1 specification, exchange.declare; RabbitMQ 3.10.8 with its plugins."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, kind))
    client.ask(exchange_declare(exchange, kind))
    client.ask(exchange_declare(exchange, passive=True))
    client.ask(exchange_delete(exchange))
    assert client.refusal(exchange_declare(exchange, passive=True)) == (
        f"channel 404 NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("exchange", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_pre_declared_exchanges(client: Client, exchange: str, kind: str) -> None:
    """0-9-1 specification, 3.1.3; an equal declare of a reserved name is allowed (RabbitMQ 3.10.8 on the wire)."""
    client.ask(exchange_declare(exchange, passive=True))
    client.ask(exchange_declare(exchange, kind, durable=True))


def test_a_passive_declare_compares_nothing(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "topic", auto_delete=True))
    client.ask(exchange_declare(exchange, "nonsense", passive=True, durable=True, internal=True))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"kind": "fanout"}, "'type' {x}: received 'fanout' but current is 'direct'"),
        ({"durable": True}, "'durable' {x}: received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' {x}: received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' {x}: received 'true' but current is 'false'"),
        ({"arguments": {"alternate-exchange": "ae"}},
         "'alternate-exchange' {x}: received the value 'ae' of type 'longstr' but current is none"),
    ],
    ids=["type", "durable", "auto_delete", "internal", "alternate-exchange"],
)  # fmt: skip
def test_an_unequal_declare(client: Client, name: Name, changed: dict[str, Any], text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    client.ask(exchange_declare(exchange))
    where = f"for exchange '{exchange}' in vhost '/'"
    assert client.refusal(exchange_declare(exchange, **changed)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg {text.format(x=where)}"
    )
    client.ask(exchange_delete(exchange))


def test_a_changed_alternate_exchange(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: values of the same type are shown without it."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, arguments={"alternate-exchange": "one"}))
    assert client.refusal(exchange_declare(exchange, arguments={"alternate-exchange": "two"})) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{exchange}' "
        "in vhost '/': received 'two' but current is 'one'"
    )
    assert client.refusal(exchange_declare(exchange)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{exchange}' "
        "in vhost '/': received none but current is the value 'one' of type 'longstr'"
    )
    client.ask(exchange_delete(exchange))


def test_arguments_nobody_knows_are_not_compared(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, auto_delete=True, arguments={"x-colour": "red"}))
    client.ask(exchange_declare(exchange, auto_delete=True, arguments={"x-colour": 5}))


def test_an_alternate_exchange_that_is_no_string(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    assert client.refusal(exchange_declare(exchange, arguments={"alternate-exchange": 5})) == (
        f"channel 406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
        f"in exchange '{exchange}' in vhost '/'"
    )


def test_reserved_names(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire; 0-9-1 specification, exchange.declare."""
    assert client.refusal(exchange_declare("amq.foo")) == (
        "channel 403 ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'"
    )
    assert client.refusal(exchange_delete("amq.direct")) == (
        "channel 403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"
    )


def test_a_reserved_name_may_be_looked_for(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(exchange_declare("amq.foo", passive=True)) == (
        "channel 404 NOT_FOUND - no exchange 'amq.foo' in vhost '/'"
    )


@pytest.mark.parametrize(
    ("kind", "durable", "text"),
    [
        ("fanout", True, "'type' {x}: received 'fanout' but current is 'direct'"),
        ("direct", False, "'durable' {x}: received 'false' but current is 'true'"),
    ],
)
def test_a_pre_declared_exchange_cannot_be_changed(client: Client, kind: str, durable: bool, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire: compared like any other."""
    where = "for exchange 'amq.direct' in vhost '/'"
    assert client.refusal(exchange_declare("amq.direct", kind, durable=durable)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg {text.format(x=where)}"
    )


def test_an_unknown_type_for_an_exchange_that_exists(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire: the type is judged first."""
    assert client.refusal(exchange_declare("amq.direct", "foo")) == (
        "connection 503 COMMAND_INVALID - invalid exchange type 'foo'"
    )


def test_the_default_exchange_is_untouchable(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True))
    assert client.refusal(exchange_declare("")) == DEFAULT_EXCHANGE
    assert client.refusal(exchange_declare("", passive=True)) == DEFAULT_EXCHANGE
    assert client.refusal(exchange_delete("")) == DEFAULT_EXCHANGE
    assert client.refusal(queue_bind(queue, "", "k")) == DEFAULT_EXCHANGE
    assert client.refusal(queue_unbind(queue, "", queue)) == DEFAULT_EXCHANGE
    assert client.refusal(exchange_bind("amq.direct", "", "k")) == DEFAULT_EXCHANGE
    assert client.refusal(exchange_bind("", "amq.direct", "k")) == DEFAULT_EXCHANGE
    assert client.refusal(exchange_unbind("", "amq.direct", "k")) == DEFAULT_EXCHANGE


@pytest.mark.parametrize("kind", ["foo", "x-jms-topic", ""])
def test_an_unknown_type_ends_the_connection(client: Client, name: Name, kind: str) -> None:
    """RabbitMQ 3.10.8 on the wire (3.13 and later: a channel error 406 with the same words).

    Erlang calls a type it never heard of invalid, and one whose plugin it knows but does not run unknown; both are right.
    """
    refused = client.refusal(exchange_declare(name("x"), kind))
    assert refused in (
        f"connection 503 COMMAND_INVALID - invalid exchange type '{kind}'",
        f"connection 503 COMMAND_INVALID - unknown exchange type '{kind}'",
    )


def test_deleting_what_does_not_exist(client: Client, name: Name) -> None:
    """RabbitMQ since 3.2: delete is idempotent."""
    client.ask(exchange_delete(name("x")))


def test_delete_if_unused(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; 0-9-1 specification, exchange.delete."""
    exchange, queue = name("x"), name()
    client.ask(exchange_declare(exchange))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(queue_bind(queue, exchange, "k"))
    assert client.refusal(exchange_delete(exchange, if_unused=True)) == (
        f"channel 406 PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"
    )
    client.ask(queue_unbind(queue, exchange, "k"))
    client.ask(exchange_delete(exchange, if_unused=True))


def test_deleting_an_exchange_removes_its_bindings(client: Client, name: Name) -> None:
    """0-9-1 specification, exchange.delete."""
    exchange, queue = name("x"), name()
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(exchange_declare(exchange))
    client.ask(queue_bind(queue, exchange, "k"))
    client.ask(exchange_delete(exchange))
    client.ask(exchange_declare(exchange, auto_delete=True))
    client.publish(b"x", exchange=exchange, key="k", mandatory=True)
    client.expect_message(BasicReturn)
    client.ask(exchange_delete(exchange))


def test_an_auto_delete_exchange_goes_with_its_last_binding(client: Client, name: Name) -> None:
    """0-9-1 specification, exchange.declare; RabbitMQ: bindings where it is the source count, a queue's end too."""
    exchange, first, second = name("x"), name(), name()
    client.ask(exchange_declare(exchange, auto_delete=True))
    for queue in (first, second):
        client.ask(queue_declare(queue, exclusive=True))
        client.ask(queue_bind(queue, exchange, "k"))
    client.ask(queue_unbind(first, exchange, "k"))
    client.ask(exchange_declare(exchange, passive=True))
    client.ask(queue_delete(second))
    assert client.refusal(exchange_declare(exchange, passive=True)).startswith("channel 404")


def test_declare_without_waiting(client: Client, name: Name) -> None:
    """0-9-1 specification, no-wait: no answer, and what follows sees the exchange; errors are still told."""
    exchange, queue = name("x"), name()
    client.send(
        exchange_declare(exchange, auto_delete=True, no_wait=True),
        queue_declare(queue, exclusive=True, no_wait=True),
        queue_bind(queue, exchange, "k", no_wait=True),
    )
    client.publish(b"x", exchange=exchange, key="k")
    assert drain(client, queue) == [b"x"]
    client.send(exchange_declare(exchange, "fanout", no_wait=True))
    assert client.closing(ExchangeDeclare).startswith("channel 406 PRECONDITION_FAILED - inequivalent arg 'type'")
    client.send(exchange_delete(exchange, no_wait=True))
    assert client.refusal(exchange_declare(exchange, passive=True)).startswith("channel 404")


def test_publishing_to_no_exchange(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    client.publish(b"x", exchange=exchange)
    assert client.closing(BasicPublish) == f"channel 404 NOT_FOUND - no exchange '{exchange}' in vhost '/'"


def test_an_internal_exchange_takes_no_publishes(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire; it is reached through a binding."""
    internal, outer, queue = name("x"), name("x"), name()
    client.ask(exchange_declare(internal, "fanout", internal=True))
    client.ask(exchange_declare(outer, "fanout"))
    client.ask(exchange_bind(internal, outer))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(queue_bind(queue, internal))
    client.publish(b"x", exchange=outer)
    assert drain(client, queue) == [b"x"]
    client.publish(b"x", exchange=internal)
    assert client.closing(BasicPublish) == (
        f"channel 403 ACCESS_REFUSED - cannot publish to internal exchange '{internal}' in vhost '/'"
    )
    client.ask(exchange_delete(internal))
    client.ask(exchange_delete(outer))


# --- exchange to exchange ---


def test_a_bound_exchange_passes_messages_on_once(client: Client, name: Name) -> None:
    """RabbitMQ's exchange.bind: cycles end, and a queue reached by two ways gets one message."""
    one, two, queue = name("x"), name("x"), name()
    client.ask(queue_declare(queue, exclusive=True))
    for exchange in (one, two):
        client.ask(exchange_declare(exchange, "fanout", auto_delete=True))
        client.ask(queue_bind(queue, exchange))
    client.ask(exchange_bind(two, one))
    client.ask(exchange_bind(one, two))
    client.ask(exchange_bind(one, one))
    client.publish(b"x", exchange=one)
    client.publish(b"y", exchange=two)
    assert drain(client, queue) == [b"x", b"y"]


def test_the_routing_key_of_each_step_counts(client: Client, name: Name) -> None:
    """RabbitMQ's exchange.bind: every exchange on the way routes by its own type."""
    topic, direct, queue = name("x"), name("x"), name()
    client.ask(exchange_declare(topic, "topic", auto_delete=True))
    client.ask(exchange_declare(direct, "direct", auto_delete=True))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(exchange_bind(direct, topic, "a.*"))
    client.ask(queue_bind(queue, direct, "a.b"))
    for key in ("a.b", "a.c", "b.b"):
        client.publish(b"x", exchange=topic, key=key)
    assert drain(client, queue) == [b"x"]


def test_unbinding_exchanges(client: Client, name: Name) -> None:
    """RabbitMQ's exchange.unbind; a binding that is not there is no error since 3.2."""
    source, queue = name("x"), name()
    client.ask(exchange_declare(source, "fanout"))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(exchange_bind("amq.fanout", source, "k"))
    client.ask(exchange_bind("amq.fanout", source, "k"))
    client.ask(queue_bind(queue, "amq.fanout"))
    client.ask(exchange_unbind("amq.fanout", source, "other"))
    client.publish(b"x", exchange=source)
    assert drain(client, queue) == [b"x"]
    client.ask(exchange_unbind("amq.fanout", source, "k"))
    client.publish(b"x", exchange=source)
    assert drain(client, queue) == []
    client.ask(exchange_delete(source))


def test_binding_exchanges_that_are_not_there(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    missing = name("x")
    refused = f"channel 404 NOT_FOUND - no exchange '{missing}' in vhost '/'"
    assert client.refusal(exchange_bind(missing, "amq.direct", "k")) == refused
    assert client.refusal(exchange_bind("amq.direct", missing, "k")) == refused
    client.ask(exchange_unbind("amq.direct", missing, "k"))


# --- alternate exchange ---


def test_what_no_binding_takes_goes_to_the_alternate_exchange(client: Client, name: Name) -> None:
    """RabbitMQ's alternate exchanges: routed that way counts as routed, and chains are followed."""
    first, second, last, queue = name("x"), name("x"), name("x"), name()
    client.ask(exchange_declare(last, "fanout"))
    client.ask(exchange_declare(second, "direct", arguments={"alternate-exchange": last}))
    client.ask(exchange_declare(first, "direct", arguments={"alternate-exchange": second}))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(queue_bind(queue, last))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    assert drain(client, queue) == [b"x"]
    assert client.arrived() == []
    client.ask(exchange_delete(last))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    client.expect_message(BasicReturn)
    for exchange in (first, second):
        client.ask(exchange_delete(exchange))


def test_alternate_exchanges_in_a_circle(client: Client, name: Name) -> None:
    """RabbitMQ's alternate exchanges: a circle ends, and the message is unroutable."""
    first, second = name("x"), name("x")
    client.ask(exchange_declare(first, "direct", arguments={"alternate-exchange": second}))
    client.ask(exchange_declare(second, "direct", arguments={"alternate-exchange": first}))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    assert client.expect_message(BasicReturn).body == b"x"
    for exchange in (first, second):
        client.ask(exchange_delete(exchange))


def test_a_binding_that_leads_nowhere_is_a_binding(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: the alternate exchange is asked only where nothing at all is matched."""
    first, deaf, alternate, queue = name("x"), name("x"), name("x"), name()
    client.ask(exchange_declare(alternate, "fanout"))
    client.ask(exchange_declare(deaf, "direct"))
    client.ask(exchange_declare(first, "fanout", arguments={"alternate-exchange": alternate}))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(queue_bind(queue, alternate))
    client.ask(exchange_bind(deaf, first))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    assert client.expect_message(BasicReturn).body == b"x"
    client.ask(exchange_delete(deaf))
    client.publish(b"y", exchange=first, key="k", mandatory=True)
    assert drain(client, queue) == [b"y"]
    for exchange in (first, alternate):
        client.ask(exchange_delete(exchange))


@pytest.mark.parametrize("alternate", ["missing", "itself", "internal", "default"])
def test_alternate_exchanges_of_every_kind(client: Client, name: Name, alternate: str) -> None:
    """RabbitMQ 3.10.8 on the wire: an internal one takes messages, the default one does not, whatever the key."""
    first, queue = name("x"), name()
    other = {"missing": name("x"), "itself": first, "internal": name("x"), "default": ""}[alternate]
    client.ask(queue_declare(queue, exclusive=True))
    if alternate == "internal":
        client.ask(exchange_declare(other, "fanout", internal=True, auto_delete=True))
        client.ask(queue_bind(queue, other))
    client.ask(exchange_declare(first, "direct", arguments={"alternate-exchange": other}))
    client.publish(b"x", exchange=first, key=queue, mandatory=True)
    if alternate == "internal":
        assert drain(client, queue) == [b"x"]
    else:
        assert client.expect_message(BasicReturn).body == b"x"
    client.ask(exchange_delete(first))


def test_the_alternate_exchange_of_a_bound_exchange(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: each exchange on the way has its own, and one key that matches is enough."""
    first, second, alternate, queue, bound = name("x"), name("x"), name("x"), name(), name()
    client.ask(exchange_declare(alternate, "fanout", auto_delete=True))
    client.ask(exchange_declare(second, "direct", arguments={"alternate-exchange": alternate}))
    client.ask(exchange_declare(first, "fanout", auto_delete=True))
    client.ask(exchange_bind(second, first))
    for destination, source, key in ((queue, alternate, ""), (bound, second, "copy")):
        client.ask(queue_declare(destination, exclusive=True))
        client.ask(queue_bind(destination, source, key))
    client.publish(b"1", exchange=first, key="k", mandatory=True)
    assert drain(client, queue) == [b"1"]
    client.publish(b"2", exchange=second, key="k", properties=with_headers({"CC": ["copy"]}))
    assert (drain(client, queue), drain(client, bound)) == ([], [b"2"])
    client.ask(exchange_delete(second))
