"""Arguments of queue.declare: what is accepted, what is refused in which words, and what counts as equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.field_tables import Field
from harness.clients.shorthand import queue_declare, queue_delete
from harness.clients.wire_client import Client

Name = Callable[..., str]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-message-ttl": "1000"}, "invalid arg 'x-message-ttl' {q}: \"expected integer, got longstr\""),
        ({"x-message-ttl": -1}, "invalid arg 'x-message-ttl' {q}: {{value_negative,-1}}"),
        ({"x-message-ttl": 2**60}, "invalid arg 'x-message-ttl' {q}: {{value_too_large,1152921504606846976}}"),
        ({"x-message-ttl": 1.5}, "invalid arg 'x-message-ttl' {q}: \"expected integer, got double\""),
        ({"x-expires": 0}, "invalid arg 'x-expires' {q}: {{value_zero,0}}"),
        ({"x-expires": -5}, "invalid arg 'x-expires' {q}: {{value_negative,-5}}"),
        ({"x-expires": 2**40}, "invalid arg 'x-expires' {q}: {{value_too_large,1099511627776}}"),
        ({"x-expires": True}, "invalid arg 'x-expires' {q}: \"expected integer, got bool\""),
        ({"x-max-length": -1}, "invalid arg 'x-max-length' {q}: {{value_negative,-1}}"),
        ({"x-max-length": "5"}, "invalid arg 'x-max-length' {q}: \"expected integer, got longstr\""),
        ({"x-max-length-bytes": -1}, "invalid arg 'x-max-length-bytes' {q}: {{value_negative,-1}}"),
        ({"x-dead-letter-routing-key": "k"},
         "invalid arg 'x-dead-letter-routing-key' {q}: routing_key_but_no_dlx_defined"),
        ({"x-dead-letter-exchange": 5}, "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue {n}"),
        ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5},
         "invalid arg 'x-dead-letter-routing-key' {q}: {{unacceptable_type,signedint}}"),
        ({"x-overflow": "bad"}, "invalid arg 'x-overflow' {q}: invalid_overflow"),
        ({"x-overflow": 5}, "invalid arg 'x-overflow' {q}: {{unacceptable_type,signedint}}"),
        ({"x-max-priority": 256}, "invalid arg 'x-max-priority' {q}: {{max_value_exceeded,256}}"),
        ({"x-max-priority": -1}, "invalid arg 'x-max-priority' {q}: {{value_negative,-1}}"),
        ({"x-max-priority": "1"}, "invalid arg 'x-max-priority' {q}: \"expected integer, got longstr\""),
        ({"x-single-active-consumer": "yes"},
         "invalid arg 'x-single-active-consumer' {q}: {{unacceptable_type,longstr}}"),
        ({"x-queue-mode": 5}, "invalid arg 'x-queue-mode' {q}: {{unacceptable_type,signedint}}"),
        ({"x-queue-type": 5}, "invalid arg 'x-queue-type' {q}: {{unacceptable_type,signedint}}"),
        ({"x-delivery-limit": 3, "x-message-ttl": -1}, "invalid arg 'x-message-ttl' {q}: {{value_negative,-1}}"),
        ({"x-queue-mode": "odd"}, "invalid arg 'x-queue-mode' {q}: \"unsupported queue mode 'odd'\""),
        ({"x-queue-version": 3}, "invalid arg 'x-queue-version' {q}: \"unsupported queue version '3'\""),
        ({"x-queue-type": "foo"}, "invalid arg 'x-queue-type' {q}: \"unsupported queue type 'foo'\""),
        ({"x-delivery-limit": 3}, "invalid arg 'x-delivery-limit' {q} of queue type rabbit_classic_queue"),
    ],
    ids=str,
)  # fmt: skip
def test_arguments_that_are_refused(client: Client, name: Name, arguments: dict[str, Any], text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    named = f"'{queue}' in vhost '/'"
    assert client.refusal(queue_declare(queue, arguments=arguments)) == (
        f"channel 406 PRECONDITION_FAILED - {text.format(q=f'for queue {named}', n=named)}"
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-message-ttl": 0},
        {"x-message-ttl": 315_360_000_000},
        {"x-expires": 315_360_000_000},
        {"x-max-length": 0},
        {"x-max-length-bytes": 2**50},
        {"x-dead-letter-exchange": "not there"},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"},
        {"x-overflow": "drop-head"},
        {"x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-max-priority": 255},
        {"x-single-active-consumer": True},
        {"x-queue-type": "classic"},
        {"x-queue-mode": "lazy"},
        {"x-queue-mode": "default"},
        {"x-queue-version": 1},
        {"x-queue-version": 2},
        {"x-queue-master-locator": "min-masters"},
        {"x-colour": "red", "colour": [1, {"deep": None}]},
    ],
    ids=str,
)
def test_arguments_that_are_accepted(client: Client, name: Name, arguments: dict[str, Any]) -> None:
    """RabbitMQ 3.10.8 on the wire; what no one knows is kept and ignored."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True, arguments=arguments))
    client.ask(queue_declare(queue, exclusive=True, arguments=arguments))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x-message-ttl": Field("I", 1000)}, {"x-message-ttl": Field("l", 1000)}),
        ({"x-message-ttl": Field("b", 100)}, {"x-message-ttl": Field("u", 100)}),
        ({"x-max-length": Field("s", 5)}, {"x-max-length": Field("i", 5)}),
        ({}, {"x-queue-type": "classic"}),
        ({"x-queue-type": "classic"}, {}),
        ({}, {"x-colour": "red"}),
        ({"x-colour": "red"}, {"x-colour": 5}),
    ],
    ids=str,
)
def test_arguments_that_are_equal(client: Client, name: Name, first: dict[str, Any], second: dict[str, Any]) -> None:
    """RabbitMQ 3.10.8 on the wire: integers compare by value, the classic type is the default, others are ignored."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True, arguments=first))
    client.ask(queue_declare(queue, exclusive=True, arguments=second))


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({}, "invalid property 'non-durable' for queue {n}"),
        ({"durable": True, "exclusive": True}, "invalid property 'exclusive-owner' for queue {n}"),
        ({"durable": True, "auto_delete": True}, "invalid property 'auto-delete' for queue {n}"),
    ],
    ids=["transient", "exclusive", "auto-delete"],
)
def test_a_quorum_queue_must_be_durable_and_shared(
    client: Client, name: Name, flags: dict[str, bool], text: str
) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    named = f"'{queue}' in vhost '/'"
    refused = client.refusal(queue_declare(queue, **flags, arguments={"x-queue-type": "quorum"}))
    assert refused == f"channel 406 PRECONDITION_FAILED - {text.format(n=named)}"


def test_a_quorum_queue_needs_a_name(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(queue_declare("", durable=True, arguments={"x-queue-type": "quorum"})) == (
        "channel 406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-queue-type": "quorum"}, "'x-queue-type' {q}: received the value 'quorum' of type 'longstr'"),
        ({"x-message-ttl": "abc"}, "'x-message-ttl' {q}: received the value 'abc' of type 'longstr'"),
        ({"x-overflow": "abc"}, "'x-overflow' {q}: received the value 'abc' of type 'longstr'"),
    ],
    ids=str,
)
def test_an_existing_queue_is_compared_before_arguments_are_judged(
    client: Client, name: Name, arguments: dict[str, Any], text: str
) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue))
    where = f"for queue '{queue}' in vhost '/'"
    assert client.refusal(queue_declare(queue, arguments=arguments)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg {text.format(q=where)} but current is none"
    )
    client.ask(queue_delete(queue))


def test_a_reserved_name_is_refused_before_its_arguments(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    assert client.refusal(queue_declare("amq.foo", arguments={"x-message-ttl": "abc"})) == (
        "channel 403 ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'"
    )
