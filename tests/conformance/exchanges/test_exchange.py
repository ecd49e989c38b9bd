"""The exchange class: declaring, deleting, binding exchanges to each other, and what may not be done."""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.method import Method
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
from tests.conformance import Made

ALTERNATE = {"arguments": {"alternate-exchange": "ae"}}
DEFAULT_EXCHANGE = "channel 403 ACCESS_REFUSED - operation not permitted on the default exchange"


PLUGINS = ("x-consistent-hash", "x-modulus-hash", "x-random", "x-recent-history")


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers", *PLUGINS])
def test_every_type_is_declared_and_found(client: Client, name: Made, kind: str) -> None:
    """0-9-1 specification, exchange.declare; RabbitMQ 3.10.8 with its plugins."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, kind))
    client.ask(exchange_declare(exchange, kind))
    client.ask(exchange_declare(exchange, passive=True))
    client.ask(exchange_delete(exchange))
    assert client.refusal(exchange_declare(exchange, passive=True)) == (
        f"channel 404 NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    )


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers", "match"])
def test_pre_declared_exchanges(client: Client, kind: str) -> None:
    """0-9-1 specification, 3.1.3; an equal declare of a reserved name is allowed (RabbitMQ 3.10.8 on the wire)."""
    client.ask(exchange_declare(f"amq.{kind}", passive=True))
    client.ask(exchange_declare(f"amq.{kind}", "headers" if kind == "match" else kind, durable=True))


def test_what_is_not_compared(client: Client, new_exchange: Made, queue: str) -> None:
    """Anything in a passive declare; arguments that nobody knows. Queues are bound to the default exchange for good."""
    exchange = new_exchange("topic", arguments={"x-colour": "red"})
    client.ask(exchange_declare(exchange, "nonsense", passive=True, durable=True, internal=True))
    client.ask(exchange_declare(exchange, "topic", arguments={"x-colour": 5}))
    assert client.refusal(queue_bind(queue, "", "k")) == DEFAULT_EXCHANGE
    assert client.refusal(queue_unbind(queue, "", queue)) == DEFAULT_EXCHANGE


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ({}, {"kind": "fanout"}, "'type' {x}: received 'fanout' but current is 'direct'"),
        ({}, {"durable": True}, "'durable' {x}: received 'true' but current is 'false'"),
        ({}, {"auto_delete": True}, "'auto_delete' {x}: received 'true' but current is 'false'"),
        ({}, {"internal": True}, "'internal' {x}: received 'true' but current is 'false'"),
        ({}, ALTERNATE, "'alternate-exchange' {x}: received the value 'ae' of type 'longstr' but current is none"),
        (ALTERNATE, {}, "'alternate-exchange' {x}: received none but current is the value 'ae' of type 'longstr'"),
        (ALTERNATE, {"arguments": {"alternate-exchange": "other"}},
         "'alternate-exchange' {x}: received 'other' but current is 'ae'"),
    ],
    ids=["type", "durable", "auto-delete", "internal", "alternate", "no alternate", "another alternate"],
)  # fmt: skip
def test_an_unequal_declare(
    client: Client, new_exchange: Made, first: dict[str, Any], second: dict[str, Any], text: str
) -> None:
    """Values of the same type are shown without it."""
    exchange = new_exchange(**first)
    where = f"for exchange '{exchange}' in vhost '/'"
    assert client.refusal(exchange_declare(exchange, **second)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg {text.format(x=where)}"
    )


CHANGED = "channel 406 PRECONDITION_FAILED - inequivalent arg '{}' for exchange 'amq.direct' in vhost '/': "


@pytest.mark.parametrize(
    ("method", "refused"),
    [
        (exchange_declare("amq.foo"),
         "channel 403 ACCESS_REFUSED - exchange name 'amq.foo' contains reserved prefix 'amq.*'"),
        (exchange_delete("amq.direct"),
         "channel 403 ACCESS_REFUSED - deletion of system exchange 'amq.direct' in vhost '/' not allowed"),
        (exchange_declare("amq.foo", passive=True), "channel 404 NOT_FOUND - no exchange 'amq.foo' in vhost '/'"),
        (exchange_declare("amq.direct", "fanout", durable=True),
         CHANGED.format("type") + "received 'fanout' but current is 'direct'"),
        (exchange_declare("amq.direct", "direct"),
         CHANGED.format("durable") + "received 'false' but current is 'true'"),
        (exchange_declare("amq.direct", "no-such-type"), "connection 503 COMMAND_INVALID - unknown exchange type 'no-such-type'"),
        *((exchange_declare("q", kind), f"connection 503 COMMAND_INVALID - unknown exchange type '{kind}'")
          for kind in ("nobody's", "x-jms-topic", "x-unknown")),
        (exchange_declare("q", arguments={"alternate-exchange": 5}),
         "channel 406 PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' in exchange 'q' in vhost '/'"),
        (exchange_declare(""), DEFAULT_EXCHANGE),
        (exchange_declare("", passive=True), DEFAULT_EXCHANGE),
        (exchange_delete(""), DEFAULT_EXCHANGE),
        (exchange_bind("amq.direct", "", "k"), DEFAULT_EXCHANGE),
        (exchange_bind("", "amq.direct", "k"), DEFAULT_EXCHANGE),
        (exchange_unbind("", "amq.direct", "k"), DEFAULT_EXCHANGE),
    ],
    ids=["reserved name", "system exchange", "looked for", "changed type", "changed durability", "type first",
         "nobody's type", "a plug-in's type", "unknown type",
         "alternate", *(f"default {what}" for what in ("declare", "passive", "delete", "from", "to", "unbind"))],
)  # fmt: skip
def test_what_is_refused(client: Client, method: Method, refused: str) -> None:
    """0-9-1 specification, exchange.declare. Reserved is only the making; a type is judged before the exchange.

    An unknown type is a channel error 406 with the same words in 3.13 and later. RabbitMQ says "invalid" of a word that
    occurs anywhere in its own code, such as "foo"; here it is the same for all.
    """
    assert client.refusal(method) == refused


def test_exchanges_and_their_bindings_go_together(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """0-9-1 specification, exchange.delete, if-unused; exchange.declare, auto-delete.

    RabbitMQ: bindings where it is the source count, a queue's end too.
    """
    queue = new_queue(exchange := new_exchange(), "k")
    assert client.refusal(exchange_delete(exchange, if_unused=True)) == (
        f"channel 406 PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"
    )
    client.ask(exchange_delete(exchange))
    client.ask(exchange_declare(exchange))
    client.publish(b"x", exchange=exchange, key="k", mandatory=True)
    client.expect_message(BasicReturn)
    client.ask(queue_bind(queue, exchange, "k"))
    client.ask(queue_unbind(queue, exchange, "k"))
    client.ask(exchange_delete(exchange, if_unused=True))
    exchange = new_exchange(auto_delete=True)
    first, second = new_queue(exchange, "k"), new_queue(exchange, "k")
    client.ask(queue_unbind(first, exchange, "k"))
    client.ask(exchange_declare(exchange, passive=True))
    client.ask(queue_delete(second))
    assert client.refusal(exchange_declare(exchange, passive=True)).startswith("channel 404")


def test_declare_without_waiting(client: Client, name: Made) -> None:
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


def test_an_internal_exchange_takes_no_publishes(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """It is reached through a binding."""
    internal, outer = new_exchange("fanout", internal=True), new_exchange("fanout")
    queue = new_queue(internal)
    client.ask(exchange_bind(internal, outer))
    client.publish(b"x", exchange=outer)
    assert drain(client, queue) == [b"x"]
    client.publish(b"x", exchange=internal)
    assert client.closing(BasicPublish) == (
        f"channel 403 ACCESS_REFUSED - cannot publish to internal exchange '{internal}' in vhost '/'"
    )


# --- exchange to exchange ---


def test_a_bound_exchange_passes_messages_on_once(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """RabbitMQ's exchange.bind: cycles end, a queue reached by two ways gets one message, each routes by its own type."""
    one, two, topic = new_exchange("fanout"), new_exchange("fanout"), new_exchange("topic")
    queue = new_queue(one)
    client.ask(queue_bind(queue, two))
    for destination, source in ((two, one), (one, two), (one, one)):
        client.ask(exchange_bind(destination, source))
    client.publish(b"x", exchange=one)
    client.publish(b"y", exchange=two)
    assert drain(client, queue) == [b"x", b"y"]
    direct = new_queue(matched := new_exchange(), "a.b")
    client.ask(exchange_bind(matched, topic, "a.*"))
    for key in ("a.b", "a.c", "b.b"):
        client.publish(b"x", exchange=topic, key=key)
    assert drain(client, direct) == [b"x"]


def test_unbinding_exchanges(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """RabbitMQ's exchange.unbind; a binding that is not there is no error since 3.2."""
    source, queue = new_exchange("fanout"), new_queue("amq.fanout")
    client.ask(exchange_bind("amq.fanout", source, "k"))
    client.ask(exchange_bind("amq.fanout", source, "k"))
    client.ask(exchange_unbind("amq.fanout", source, "other"))
    client.publish(b"x", exchange=source)
    assert drain(client, queue) == [b"x"]
    client.ask(exchange_unbind("amq.fanout", source, "k"))
    client.publish(b"x", exchange=source)
    assert drain(client, queue) == []


def test_exchanges_that_are_not_there(client: Client, name: Made) -> None:
    """Bindings and publishes need them; unbinding and deleting what is not there is no error since 3.2."""
    missing = name("x")
    refused = f"channel 404 NOT_FOUND - no exchange '{missing}' in vhost '/'"
    assert client.refusal(exchange_bind(missing, "amq.direct", "k")) == refused
    assert client.refusal(exchange_bind("amq.direct", missing, "k")) == refused
    client.publish(b"x", exchange=missing)
    assert client.closing(BasicPublish) == refused
    client.ask(exchange_unbind("amq.direct", missing, "k"))
    client.ask(exchange_delete(missing))


# --- alternate exchange ---


def declare_with(alternate: str, kind: str = "direct") -> dict[str, Any]:
    """The options of an exchange that has an alternate exchange."""
    return {"kind": kind, "arguments": {"alternate-exchange": alternate}}


@pytest.mark.parametrize("internal", [False, True])
def test_what_no_binding_takes_goes_to_the_alternate_exchange(
    client: Client, new_exchange: Made, new_queue: Made, internal: bool
) -> None:
    """RabbitMQ's alternate exchanges: routed that way counts as routed, chains are followed, internal ones reached."""
    queue = new_queue(last := new_exchange("fanout", internal=internal))
    first = new_exchange(**declare_with(new_exchange(**declare_with(last))))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    assert drain(client, queue) == [b"x"]
    assert client.arrived() == []
    client.ask(exchange_delete(last))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    client.expect_message(BasicReturn)


def test_where_an_alternate_exchange_is_asked(client: Client, new_exchange: Made, new_queue: Made) -> None:
    """Only where nothing at all is matched: a binding that leads nowhere is a binding.

    Each exchange on the way has its own, and one key that matches is enough.
    """
    queue, deaf = new_queue(alternate := new_exchange("fanout")), new_exchange()
    first = new_exchange(**declare_with(alternate, "fanout"))
    client.ask(exchange_bind(deaf, first))
    client.publish(b"x", exchange=first, key="k", mandatory=True)
    assert client.expect_message(BasicReturn).body == b"x"
    client.ask(exchange_delete(deaf))
    client.publish(b"y", exchange=first, key="k", mandatory=True)
    assert drain(client, queue) == [b"y"]
    queue = new_queue(alternate := new_exchange("fanout"))
    bound = new_queue(second := new_exchange(**declare_with(alternate)), "copy")
    client.ask(exchange_bind(second, first := new_exchange("fanout")))
    client.publish(b"1", exchange=first, key="k", mandatory=True)
    assert drain(client, queue) == [b"1"]
    client.publish(b"2", exchange=second, key="k", properties=with_headers({"CC": ["copy"]}))
    assert (drain(client, queue), drain(client, bound)) == ([], [b"2"])


@pytest.mark.parametrize("alternate", ["missing", "itself", "each other", "default"])
def test_alternate_exchanges_that_take_nothing(client: Client, name: Made, queue: str, alternate: str) -> None:
    """A circle ends; the default exchange takes nothing, whatever the key: the message is unroutable."""
    first, second = name("x"), name("x")
    other = {"missing": second, "itself": first, "each other": second, "default": ""}[alternate]
    client.ask(exchange_declare(first, **declare_with(other)))
    if alternate == "each other":
        client.ask(exchange_declare(second, **declare_with(first)))
    client.publish(b"x", exchange=first, key=queue, mandatory=True)
    assert client.expect_message(BasicReturn).body == b"x"
    for exchange in (first, second):
        client.ask(exchange_delete(exchange))
