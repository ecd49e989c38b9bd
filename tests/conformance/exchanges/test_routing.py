"""Which messages reach a queue: the default exchange and the four types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import BasicGetOk, QueueBind
from broker.wire.properties import BasicProperties
from harness.clients.queue_steps import drain
from harness.clients.shorthand import exchange_declare, get, queue_bind, queue_declare, queue_unbind
from harness.clients.wire_client import Client

Name = Callable[..., str]


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def test_the_default_exchange_routes_by_queue_name(client: Client, queue: str) -> None:
    """0-9-1 specification, 3.1.3.1."""
    client.publish(b"x", key=queue)
    client.publish(b"y", key=f"{queue}.other")
    assert drain(client, queue) == [b"x"]


def test_direct(client: Client, queue: str, name: Name) -> None:
    """0-9-1 specification, 3.1.3.1: equal keys; several bindings that match give one message."""
    key, other = name("k"), name("k")
    client.ask(queue_bind(queue, "amq.direct", key))
    client.ask(queue_bind(queue, "amq.direct", key, arguments={"a": 1}))
    client.ask(queue_bind(queue, "amq.direct", other))
    for routing_key in (key, other, f"{key}.x", ""):
        client.publish(routing_key.encode(), exchange="amq.direct", key=routing_key)
    assert drain(client, queue) == [key.encode(), other.encode()]


def test_fanout_ignores_the_key(client: Client, name: Name) -> None:
    """0-9-1 specification, 3.1.3.2."""
    exchange, queues = name("x"), [name(), name()]
    client.ask(exchange_declare(exchange, "fanout", auto_delete=True))
    for item in queues:
        client.ask(queue_declare(item, exclusive=True))
        client.ask(queue_bind(item, exchange, "ignored"))
    client.publish(b"x", exchange=exchange, key="anything")
    assert [drain(client, item) for item in queues] == [[b"x"], [b"x"]]


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
def test_topic(client: Client, queue: str, name: Name, pattern: str, keys: list[str], missed: list[str]) -> None:
    """0-9-1 specification, 3.1.3.3; RabbitMQ 3.10.8 on the wire: words may be empty, the empty key has none."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "topic", auto_delete=True))
    client.ask(queue_bind(queue, exchange, pattern))
    for key in keys + missed:
        client.publish(key.encode(), exchange=exchange, key=key)
    assert drain(client, queue) == [key.encode() for key in keys]


def test_topic_bindings_that_overlap_give_one_message(client: Client, queue: str, name: Name) -> None:
    """0-9-1 specification, 3.1.3.3; unbinding one leaves the others."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "topic", auto_delete=True))
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


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ({"x-match": "all", "a": 1, "b": "two"}, [1, 4]),
        ({"a": 1, "b": "two"}, [1, 4]),
        ({"x-match": "any", "a": 1, "b": "two"}, [0, 1, 2, 3, 4]),
        ({"x-match": "any", "a": None}, [0, 1, 3, 4]),
        ({"x-match": "all", "a": None, "c": None}, [4]),
        ({"x-match": "all"}, [0, 1, 2, 3, 4, 5]),
        ({"x-match": "any"}, []),
        ({"x-match": "all", "a": Field("l", 1)}, [0, 1, 4]),
        ({"x-match": "all", "a": "1"}, []),
        ({"x-match": "all", "a": 1, "x-ignored": 1}, [0, 1, 4]),
        ({"x-match": "any", "x-ignored": 1}, []),
        ({"x-match": "all-with-x", "a": 1, "x-ignored": 1}, []),
    ],
    ids=str,
)
def test_headers(client: Client, queue: str, name: Name, arguments: dict[str, Any], taken: list[int]) -> None:
    """0-9-1 specification, 3.1.3.4; RabbitMQ 3.10.8 on the wire: no value means presence, x- headers do not count."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "headers", auto_delete=True))
    client.ask(queue_bind(queue, exchange, "ignored", arguments=arguments))
    for number, headers in enumerate(HEADERS):
        properties = BasicProperties(headers=from_python(headers))
        client.publish(str(number).encode(), exchange=exchange, properties=properties)
    assert drain(client, queue) == [str(number).encode() for number in taken]


@pytest.mark.parametrize(("match", "taken"), [("all-with-x", [1]), ("any-with-x", [0, 1, 2])])
def test_headers_with_x(client: Client, queue: str, name: Name, match: str, taken: list[int]) -> None:
    """RabbitMQ 3.10: the -with-x forms take headers that begin with x- into account."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "headers", auto_delete=True))
    client.ask(queue_bind(queue, exchange, arguments={"x-match": match, "x-a": 1, "b": 1}))
    for number, headers in enumerate(({"x-a": 1}, {"x-a": 1, "b": 1}, {"b": 1}, {"c": 1})):
        properties = BasicProperties(headers=from_python(headers))
        client.publish(str(number).encode(), exchange=exchange, properties=properties)
    assert drain(client, queue) == [str(number).encode() for number in taken]


def test_headers_without_any(client: Client, queue: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: a message without a header table matches an empty `all`."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, "headers", auto_delete=True))
    client.ask(queue_bind(queue, exchange))
    client.publish(b"x", exchange=exchange)
    assert drain(client, queue) == [b"x"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("foo", 'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        (1, "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_a_headers_binding_that_makes_no_sense(client: Client, queue: str, value: object, text: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.send(queue_bind(queue, "amq.headers", arguments={"x-match": value}))
    assert client.closing(QueueBind) == f"channel 406 PRECONDITION_FAILED - {text}"


def test_a_message_to_several_queues_keeps_its_content(client: Client, name: Name) -> None:
    """0-9-1 specification, 4.7: each queue gets the message unchanged."""
    exchange, queues = name("x"), [name() for _ in range(3)]
    client.ask(exchange_declare(exchange, "fanout", auto_delete=True))
    for queue in queues:
        client.ask(queue_declare(queue, exclusive=True))
        client.ask(queue_bind(queue, exchange))
    properties = BasicProperties(message_id="m", headers=from_python({"n": 1}))
    client.publish(b"body", exchange=exchange, key="key", properties=properties)
    for queue in queues:
        client.send(get(queue, no_ack=True))
        message = client.expect_message(BasicGetOk)
        assert (message.method.exchange, message.method.routing_key) == (exchange, "key")
        assert (message.properties, message.body) == (properties, b"body")
