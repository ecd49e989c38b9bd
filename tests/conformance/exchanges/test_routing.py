"""Routing to queues by the default exchange and the four types."""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import QueueBind
from broker.wire.properties import BasicProperties
from harness.clients.queue_steps import drain
from harness.clients.shorthand import queue_bind, queue_unbind
from harness.clients.wire_client import Client
from tests.conformance import Made


def test_direct(client: Client, queue: str, name: Made) -> None:
    """0-9-1 specification, 3.1.3.1: equal keys, of the default exchange the queue's name.

    Several bindings that match give one message.
    """
    client.publish(b"x", key=queue)
    client.publish(b"y", key=f"{queue}.other")
    assert drain(client, queue) == [b"x"]
    key, other = name("k"), name("k")
    client.ask(queue_bind(queue, "amq.direct", key))
    client.ask(queue_bind(queue, "amq.direct", key, arguments={"a": 1}))
    client.ask(queue_bind(queue, "amq.direct", other))
    for routing_key in (key, other, f"{key}.x", ""):
        client.publish(routing_key.encode(), exchange="amq.direct", key=routing_key)
    assert drain(client, queue) == [key.encode(), other.encode()]


@pytest.mark.parametrize(
    ("pattern", "keys", "missed"),
    [
        ("a.b", ["a.b"], ["a", "a.b.c", "", "a.*"]),
        ("a.*", ["a.b", "a.", "a.*"], ["a", "a.b.c", "b.b"]),
        ("*", ["a"], ["", "a.b", "."]),
        ("#", ["", "a", "a.b.c", "."], []),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["b", "", "ab"]),
        ("#.b", ["b", "a.b", "a.c.b"], ["", "b.a"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "a.b.c", "b"]),
        ("*.#", ["a", "a.b", "."], [""]),
        ("*.*", ["a.b", "."], ["a", "a.b.c"]),
        ("#.#", ["", "a", "a.b"], []),
        ("a*", ["a*"], ["ab", "a"]),
        ("", [""], ["a"]),
    ],
)
def test_topic(
    client: Client, new_exchange: Made, new_queue: Made, pattern: str, keys: list[str], missed: list[str]
) -> None:
    """0-9-1 specification, 3.1.3.3; RabbitMQ 3.10.8 on the wire: words may be empty, the empty key has none."""
    queue = new_queue(exchange := new_exchange("topic"), pattern)
    for key in keys + missed:
        client.publish(key.encode(), exchange=exchange, key=key)
    assert drain(client, queue) == [key.encode() for key in keys]


def test_topic_bindings_that_overlap_give_one_message(client: Client, queue: str, new_exchange: Made) -> None:
    """0-9-1 specification, 3.1.3.3; unbinding one leaves the others."""
    exchange = new_exchange("topic")
    for pattern in ("a.*", "a.#", "*.b", "#"):
        client.ask(queue_bind(queue, exchange, pattern))
    client.publish(b"1", exchange=exchange, key="a.b")
    assert drain(client, queue) == [b"1"]
    for pattern in ("#", "a.#", "a.*"):
        client.ask(queue_unbind(queue, exchange, pattern))
    client.publish(b"2", exchange=exchange, key="a.c")
    client.publish(b"3", exchange=exchange, key="a.b")
    assert drain(client, queue) == [b"3"]


HEADERS: list[dict[str, Any]] = [
    {"a": 1},
    {"a": 1, "b": "two"},
    {"b": "two"},
    {"a": 2, "b": "two"},
    {"a": 1, "b": "two", "c": True},
    {},
]
WITH_X: list[dict[str, Any]] = [{"x-a": 1}, {"x-a": 1, "b": 1}, {"b": 1}, {"c": 1}]


@pytest.mark.parametrize(
    ("arguments", "sent", "taken"),
    [
        ({"x-match": "all", "a": 1, "b": "two"}, HEADERS, [1, 4]),
        ({"a": 1, "b": "two"}, HEADERS, [1, 4]),
        ({"x-match": "any", "a": 1, "b": "two"}, HEADERS, [0, 1, 2, 3, 4]),
        ({"x-match": "any", "a": None}, HEADERS, [0, 1, 3, 4]),
        ({"x-match": "all", "a": None, "c": None}, HEADERS, [4]),
        ({"x-match": "all"}, HEADERS, [0, 1, 2, 3, 4, 5]),
        ({"x-match": "any"}, HEADERS, []),
        ({"x-match": "all", "a": Field("l", 1)}, HEADERS, [0, 1, 4]),
        ({"x-match": "all", "a": "1"}, HEADERS, []),
        ({"x-match": "all", "a": 1, "x-ignored": 1}, HEADERS, [0, 1, 4]),
        ({"x-match": "any", "x-ignored": 1}, HEADERS, []),
        ({"x-match": "all-with-x", "a": 1, "x-ignored": 1}, HEADERS, []),
        ({"x-match": "all-with-x", "x-a": 1, "b": 1}, WITH_X, [1]),
        ({"x-match": "any-with-x", "x-a": 1, "b": 1}, WITH_X, [0, 1, 2]),
        ({}, [None], [0]),
    ],
    ids=str,
)
def test_headers(
    client: Client, queue: str, new_exchange: Made, arguments: dict[str, Any], sent: list[Any], taken: list[int]
) -> None:
    """0-9-1 specification, 3.1.3.4; RabbitMQ 3.10.8 on the wire: no value means presence, x- headers do not count.

    The -with-x forms take them into account. A message without a header table matches an empty `all`.
    """
    client.ask(queue_bind(queue, exchange := new_exchange("headers"), "ignored", arguments=arguments))
    for number, headers in enumerate(sent):
        properties = BasicProperties(headers=None if headers is None else from_python(headers))
        client.publish(b"%d" % number, exchange=exchange, properties=properties)
    assert drain(client, queue) == [b"%d" % number for number in taken]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("foo", 'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_a_headers_binding_that_makes_no_sense(client: Client, queue: str, value: object, text: str) -> None:
    client.send(queue_bind(queue, "amq.headers", arguments={"x-match": value}))
    assert client.closing(QueueBind) == f"channel 406 PRECONDITION_FAILED - {text}"
