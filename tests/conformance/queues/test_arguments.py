"""Arguments of queue.declare: what is accepted, what is refused in which words, and what counts as equal."""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.field_tables import Field
from broker.wire.methods import QueueDeclare, QueueDeclareOk, QueueDeleteOk
from harness.clients.shorthand import consume, queue_declare, queue_delete
from harness.clients.wire_client import Client
from tests.conformance import Made

WANTS_INTEGER = '"expected integer, got {}"'
WRONG: dict[str, list[tuple[str, Any, str]]] = {
    "classic": [
        ("x-message-ttl", "1000", WANTS_INTEGER.format("longstr")),
        ("x-message-ttl", 1.5, WANTS_INTEGER.format("double")),
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", 2**60, "{value_too_large,1152921504606846976}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -5, "{value_negative,-5}"),
        ("x-expires", 2**40, "{value_too_large,1099511627776}"),
        ("x-expires", True, WANTS_INTEGER.format("bool")),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length", "5", WANTS_INTEGER.format("longstr")),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-overflow", "bad", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", "1", WANTS_INTEGER.format("longstr")),
        ("x-single-active-consumer", "yes", "{unacceptable_type,longstr}"),
        ("x-queue-mode", 5, "{unacceptable_type,signedint}"),
        ("x-queue-mode", "odd", '"unsupported queue mode \'odd\'"'),
        ("x-queue-version", 3, '"unsupported queue version \'3\'"'),
        ("x-queue-type", 5, "{unacceptable_type,signedint}"),
        ("x-queue-type", "foo", '"unsupported queue type \'foo\'"'),
    ],
    "quorum": [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-dead-letter-strategy", "bad", "invalid_dlx_strategy"),
        ("x-dead-letter-strategy", 5, "{unacceptable_type,signedint}"),
        ("x-max-in-memory-length", -1, "{value_negative,-1}"),
        ("x-max-in-memory-bytes", "a", WANTS_INTEGER.format("longstr")),
        ("x-quorum-initial-group-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "odd", "invalid_queue_locator_arg"),
        ("x-queue-leader-locator", 5, "{unacceptable_type,signedint}"),
        ("x-overflow", "bad", "invalid_overflow"),
    ],
    "stream": [
        *(("x-max-age", age, "invalid_max_age") for age in ("1x", "0s", "1.5h", "1h2m", "2")),
        ("x-max-age", 5, "{unacceptable_type,signedint}"),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", -1, "{value_negative,-1}"),
        ("x-stream-max-segment-size-bytes", "a", WANTS_INTEGER.format("longstr")),
        ("x-initial-cluster-size", 0, "{value_zero,0}"),
        ("x-queue-leader-locator", "foo", "invalid_queue_locator_arg"),
    ],
}  # fmt: skip
OF_OTHER_TYPES = {
    "classic": {"x-delivery-limit": 3},
    "quorum": {"x-max-priority": 5, "x-queue-mode": "lazy", "x-queue-version": 2, "x-max-age": "1h",
               "x-queue-master-locator": "min-masters",
               "x-stream-max-segment-size-bytes": 5, "x-initial-cluster-size": 1},
    "stream": {"x-max-length": 10, "x-message-ttl": 1, "x-expires": 1000, "x-overflow": "drop-head",
               "x-dead-letter-exchange": "a", "x-max-priority": 1, "x-single-active-consumer": True,
               "x-queue-mode": "lazy", "x-delivery-limit": 1, "x-quorum-initial-group-size": 1},
}  # fmt: skip


def declaration(queue: str, kind: str, arguments: dict[str, Any], **flags: bool) -> QueueDeclare:
    """Return the declaration of a queue of this type; classic is declared without a type."""
    arguments = arguments if kind == "classic" else {"x-queue-type": kind, **arguments}
    return queue_declare(queue, arguments=arguments, **(flags or {"durable": True}))


@pytest.mark.parametrize(
    ("kind", "argument", "value", "problem"), [(kind, *row) for kind, rows in WRONG.items() for row in rows]
)
def test_values_that_are_refused(
    client: Client, name: Made, kind: str, argument: str, value: object, problem: str
) -> None:
    queue = name()
    assert client.refusal(declaration(queue, kind, {argument: value})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/': {problem}"
    )


@pytest.mark.parametrize(
    ("kind", "argument", "value"), [(kind, *row) for kind, rows in OF_OTHER_TYPES.items() for row in rows.items()]
)
def test_arguments_of_other_types(client: Client, name: Made, kind: str, argument: str, value: object) -> None:
    queue = name()
    assert client.refusal(declaration(queue, kind, {argument: value})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/' "
        f"of queue type rabbit_{kind}_queue"
    )


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        ("classic", {"x-dead-letter-exchange": 5}, "invalid type 'signedint' for arg 'x-dead-letter-exchange' in {q}"),
        ("classic", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 5},
         "invalid arg 'x-dead-letter-routing-key' for {q}: {{unacceptable_type,signedint}}"),
        ("classic", {"x-delivery-limit": 3, "x-message-ttl": -1},
         "invalid arg 'x-message-ttl' for {q}: {{value_negative,-1}}"),
        ("quorum", {"x-max-priority": 5, "x-message-ttl": "a"},
         "invalid arg 'x-message-ttl' for {q}: \"expected integer, got longstr\""),
        ("stream", {"x-stream-max-segment-size-bytes": 3_000_000_001},
         "Exceeded max value for x-stream-max-segment-size-bytes"),
    ],
    ids=str,
)  # fmt: skip
def test_several_arguments_and_other_words(
    client: Client, name: Made, kind: str, arguments: dict[str, Any], text: str
) -> None:
    """Values are judged before types."""
    queue = name()
    where = f"queue '{queue}' in vhost '/'"
    refused = client.refusal(declaration(queue, kind, arguments))
    assert refused == f"channel 406 PRECONDITION_FAILED - {text.format(q=where)}"


GOOD: dict[str, list[dict[str, Any]]] = {
    "classic": [
        *({"x-message-ttl": value} for value in (0, 315_360_000_000)),
        {"x-expires": 315_360_000_000},
        {"x-max-length": 0},
        {"x-max-length-bytes": 2**50},
        {"x-dead-letter-exchange": "not there"},
        {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k"},
        *({"x-overflow": value} for value in ("drop-head", "reject-publish", "reject-publish-dlx")),
        {"x-max-priority": 255},
        {"x-single-active-consumer": True},
        {"x-queue-type": "classic"},
        *({"x-queue-mode": value} for value in ("lazy", "default")),
        *({"x-queue-version": value} for value in (1, 2)),
        {"x-queue-master-locator": "min-masters"},
        {"x-colour": "red", "colour": [1, {"deep": None}]},
    ],
    "quorum": [
        {},
        {"x-message-ttl": 1000},
        {"x-expires": 60_000},
        {"x-max-length": 5, "x-max-length-bytes": 50, "x-overflow": "reject-publish"},
        {"x-overflow": "reject-publish-dlx"},
        {"x-max-in-memory-length": 0, "x-max-in-memory-bytes": 0},
        {"x-quorum-initial-group-size": 3},
        {"x-quorum-target-group-size": "any", "x-quorum-other": 1},
        *({"x-queue-leader-locator": value} for value in ("balanced", "random")),
        {"x-single-active-consumer": True},
        *({"x-delivery-limit": value} for value in (0, -1, "a")),
        {"x-dead-letter-strategy": "at-least-once"},
        {"x-dead-letter-exchange": "", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
    ],
    "stream": [
        *({"x-max-age": age} for age in ("1Y", "2M", "3D", "4h", "5m", "6s")),
        {"x-max-length-bytes": 0},
        {"x-stream-max-segment-size-bytes": 3_000_000_000},
        {"x-initial-cluster-size": 1},
        {"x-queue-leader-locator": "client-local"},
        {"x-stream-filter-size-bytes": 16},
        {"x-unknown": 1},
    ],
}


@pytest.mark.parametrize("kind", GOOD)
def test_arguments_that_are_accepted(client: Client, name: Made, kind: str) -> None:
    """Unknown arguments are kept and ignored; x-delivery-limit is not checked at all."""
    for arguments in GOOD[kind]:
        queue = name()
        for _ in range(2):
            assert client.ask(declaration(queue, kind, arguments)) == QueueDeclareOk(queue, 0, 0), arguments
        assert client.ask(queue_delete(queue)) == QueueDeleteOk(0), arguments


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    ("flags", "property_"),
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"exclusive": True}, "exclusive-owner"),
        ({"auto_delete": True}, "auto-delete"),
    ],
    ids=str,
)
def test_quorum_queues_and_streams_last(
    client: Client, name: Made, kind: str, flags: dict[str, bool], property_: str
) -> None:
    queue = name()
    assert client.refusal(declaration(queue, kind, {}, **flags)) == (
        f"channel 406 PRECONDITION_FAILED - invalid property '{property_}' for queue '{queue}' in vhost '/'"
    )


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_quorum_queues_and_streams_are_named_by_their_client(client: Client, kind: str) -> None:
    assert client.refusal(declaration("", kind, {})) == (
        f"channel 406 PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_{kind}_queue"
    )


QUORUM, STREAM = {"x-queue-type": "quorum"}, {"x-queue-type": "stream"}


def declared(queue: str, given: dict[str, Any], lasting: dict[str, Any]) -> QueueDeclare:
    """Return a declaration: names that begin with x- are arguments, the rest flags. Quorum queues and streams are
    always durable."""
    flags = {key: value for key, value in given.items() if not key.startswith("x-")}
    arguments = {key: value for key, value in given.items() if key.startswith("x-")}
    return queue_declare(queue, arguments=arguments, **({"durable": lasting in (QUORUM, STREAM)} | flags))


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
        *((QUORUM, QUORUM | other) for other in ({"x-max-priority": 5}, {"x-queue-mode": "lazy"}, {"x-max-age": "1h"})),
        *((STREAM, STREAM | other) for other in ({"x-message-ttl": 5}, {"x-max-length": 5}, {"x-unknown": 1})),
    ],
    ids=str,
)
def test_what_is_not_compared(client: Client, name: Made, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Integers compare by value, the classic type is the default.

    Unknown arguments are ignored, and so are those of other types, although a first declaration may not have them.
    """
    queue = name()
    lasting = {key: value for key, value in first.items() if key == "x-queue-type"}
    client.ask(declared(queue, first, lasting))
    client.ask(declared(queue, second, lasting))
    client.ask(queue_delete(queue))


OF_TYPE = "received the value '{}' of type '{}' but current is none"
AMONG = "received '{}' but current is '{}'"
NONE = "received none but current is the value '{}' of type '{}'"
TTL = "x-message-ttl"


@pytest.mark.parametrize(
    ("first", "second", "argument", "text"),
    [
        ({}, {"durable": True}, "durable", AMONG.format("true", "false")),
        ({}, {"auto_delete": True}, "auto_delete", AMONG.format("true", "false")),
        ({}, {"durable": True, "auto_delete": True}, "durable", AMONG.format("true", "false")),
        ({}, {TTL: 1000}, TTL, OF_TYPE.format("1000", "signedint")),
        ({}, {TTL: "abc"}, TTL, OF_TYPE.format("abc", "longstr")),
        ({TTL: 1000}, {TTL: 2000}, TTL, AMONG.format("2000", "1000")),
        ({TTL: 1000}, {}, TTL, NONE.format("1000", "signedint")),
        ({}, {"x-overflow": "abc"}, "x-overflow", OF_TYPE.format("abc", "longstr")),
        ({"x-dead-letter-exchange": "a"}, {"x-dead-letter-exchange": "b"}, "x-dead-letter-exchange", AMONG.format("b", "a")),
        ({"x-max-priority": 5}, {"x-max-priority": 6}, "x-max-priority", AMONG.format("6", "5")),
        ({"x-max-priority": 5}, {}, "x-max-priority", NONE.format("5", "signedint")),
        ({}, QUORUM, "x-queue-type", OF_TYPE.format("quorum", "longstr")),
        ({}, STREAM, "x-queue-type", OF_TYPE.format("stream", "longstr")),
        (QUORUM, {}, "x-queue-type", NONE.format("quorum", "longstr")),
        (QUORUM, {"x-queue-type": "classic"}, "x-queue-type", AMONG.format("classic", "quorum")),
        (QUORUM, {"x-queue-type": 5}, "x-queue-type", AMONG.format("5", "quorum")),
        (QUORUM, {TTL: 5}, "x-queue-type", NONE.format("quorum", "longstr")),
        (QUORUM, QUORUM | {TTL: 5, "x-max-length": 5}, "x-max-length", OF_TYPE.format("5", "signedint")),
        *((QUORUM, QUORUM | {name: 5}, name, OF_TYPE.format("5", "signedint"))
          for name in ("x-delivery-limit", "x-quorum-initial-group-size")),
        (STREAM, {}, "x-queue-type", NONE.format("stream", "longstr")),
        (STREAM, {"x-queue-type": "classic"}, "x-queue-type", AMONG.format("classic", "stream")),
        (STREAM, STREAM | {"x-max-age": "1h"}, "x-max-age", OF_TYPE.format("1h", "longstr")),
        (STREAM, STREAM | {"x-stream-max-segment-size-bytes": 6}, "x-stream-max-segment-size-bytes",
         OF_TYPE.format("6", "signedint")),
        (STREAM | {"x-max-age": "1h"}, STREAM | {"x-max-age": "60m"}, "x-max-age", AMONG.format("60m", "1h")),
        (STREAM | {"x-max-length-bytes": 5}, STREAM | {"x-max-length-bytes": 6}, "x-max-length-bytes", AMONG.format("6", "5")),
    ],
    ids=str,
)  # fmt: skip
def test_a_second_declaration_is_compared(
    client: Client, name: Made, first: dict[str, Any], second: dict[str, Any], argument: str, text: str
) -> None:
    """In the order in which the type lists its arguments, and before they are judged."""
    queue = name()
    lasting = {key: value for key, value in first.items() if key == "x-queue-type"}
    client.ask(declared(queue, first, lasting))
    assert client.refusal(declared(queue, second, lasting)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': {text}"
    )
    client.ask(queue_delete(queue))


# Arguments of basic.consume


@pytest.mark.parametrize(
    ("kind", "argument", "value", "problem"),
    [
        ("classic", "x-priority", "5", f": {WANTS_INTEGER.format('longstr')}"),
        ("classic", "x-priority", 1.5, f": {WANTS_INTEGER.format('double')}"),
        ("classic", "x-cancel-on-ha-failover", "yes", ": {unacceptable_type,longstr}"),
        ("classic", "x-cancel-on-ha-failover", 1, ": {unacceptable_type,signedint}"),
        ("classic", "x-stream-offset", "first", " of queue type rabbit_classic_queue"),
        ("quorum", "x-stream-offset", "first", " of queue type rabbit_quorum_queue"),
        ("quorum", "x-cancel-on-ha-failover", True, " of queue type rabbit_quorum_queue"),
        ("stream", "x-priority", 3, " of queue type rabbit_stream_queue"),
        ("stream", "x-priority", "a", " of queue type rabbit_stream_queue"),
        ("stream", "x-cancel-on-ha-failover", True, " of queue type rabbit_stream_queue"),
    ],
)
def test_arguments_of_consumers(
    client: Client, declare: Made, kind: str, argument: str, value: object, problem: str
) -> None:
    """Looked at before the prefetch that a stream asks for."""
    queue = declare(queue_type=kind)
    assert client.refusal(consume(queue, arguments={argument: value})) == (
        f"channel 406 PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/'{problem}"
    )
    plain = declare()
    client.ask(consume(plain, arguments={"x-cancel-on-ha-failover": True, "x-priority": 1, "other": "x"}))


def test_a_reserved_name_is_refused_before_its_arguments(client: Client) -> None:
    assert client.refusal(queue_declare("amq.foo", arguments={"x-message-ttl": "abc"})) == (
        "channel 403 ACCESS_REFUSED - queue name 'amq.foo' contains reserved prefix 'amq.*'"
    )
