"""The firehose: what is told of publishes and deliveries, to whom, and that nothing is when it is off.

Keys, headers and their order are RabbitMQ 3.10.8's on the wire, with tracing on in a virtual host of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.session.channel import firehose
from broker.wire.field_tables import Field, to_python
from broker.wire.methods import BasicNack, ChannelOpen, TxRollback, TxSelect
from harness.clients.amqp_peer import Message
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import consume, exchange_declare, get, queue_bind, queue_declare

CONNECTION = "127.0.0.1:50000 -> 127.0.0.1:5672"
PLACE = {"node": "leveret", "vhost": "/", "connection": CONNECTION, "channel": 1, "user": "guest"}


@pytest.fixture
def client(sessions: SessionLayer) -> SessionClient:
    client = sessions.connect()
    client.ask(queue_declare("q"))
    return client


@pytest.fixture
def tracer(sessions: SessionLayer) -> SessionClient:
    """Somebody with a queue that hears everything."""
    tracer = sessions.connect()
    tracer.ask(queue_declare("told"))
    tracer.ask(queue_bind("told", "amq.rabbitmq.trace", "#"))
    return tracer


def told(tracer: SessionClient) -> list[Message]:
    """Return messages of the firehose since the last call."""
    found = []
    while isinstance(item := tracer.ask(get("told", no_ack=True)), Message):
        assert item.method.exchange == "amq.rabbitmq.trace"
        found.append(item)
    return found


def headers(message: Message) -> dict[str, Any]:
    assert message.properties._replace(headers=None) == ((None,) * 14)
    return to_python(message.properties.headers or {})


def keys(messages: list[Message]) -> list[str]:
    return [message.method.routing_key for message in messages]


@pytest.fixture
def started(sessions: SessionLayer, client: SessionClient, tracer: SessionClient) -> None:
    """From here on it is on."""
    firehose.start(sessions.core.vhost)


@pytest.mark.usefixtures("started")
def test_a_publish_is_told(client: SessionClient, tracer: SessionClient) -> None:
    """A queue whose name leaves no room for a key is left out."""
    client.ask(exchange_declare("x", "fanout"))
    client.ask(queue_bind("q", "x"))
    client.publish(b"body", exchange="x", key="k")
    (message,) = told(tracer)
    assert (message.method.routing_key, message.body) == ("publish.x", b"body")
    expected = {"exchange_name": "x", "routing_keys": ["k"], "properties": {}, **PLACE, "routed_queues": ["q"]}
    assert list(headers(message).items()) == list(expected.items())
    assert (message.properties.headers or {})["channel"] == Field("I", 1)
    long = "q" * 250
    client.ask(queue_declare(long, exclusive=True))
    client.publish(b"x", key=long)
    client.ask(get(long, no_ack=True))
    assert keys(told(tracer)) == ["publish."]


def test_a_delivery_and_a_get_are_told(sessions: SessionLayer, client: SessionClient, tracer: SessionClient) -> None:
    client.publish(b"1", key="q")
    client.publish(b"2", key="q")
    firehose.start(sessions.core.vhost)
    client.ask(get("q", no_ack=True))
    client.send(consume("q", "c"))
    delivered = client.received()[-1]
    client.send(BasicNack(delivered.method.delivery_tag, False, True))
    first, second, third = told(tracer)
    assert keys([first, second, third]) == ["deliver.q"] * 3
    assert [message.body for message in (first, second, third)] == [b"1", b"2", b"2"]
    said = {"exchange_name": "", "routing_keys": ["q"], "properties": {}, "node": "leveret", "redelivered": 0, **PLACE}
    assert headers(first) == headers(second) == said
    assert list(headers(first)) == list(said)
    assert headers(third) == {**said, "redelivered": 1}


@pytest.mark.usefixtures("started")
def test_properties_come_the_last_first(client: SessionClient, tracer: SessionClient) -> None:
    """A timestamp has its lower 32 bits, signed."""
    said = {"content_type": "text/plain", "delivery_mode": 2, "priority": 3, "user_id": "guest"}
    headers_said = {"CC": ["b"], "BCC": ["secret"], "n": 5}
    client.publish(b"", key="q", headers=headers_said, timestamp=1234567890123, **said)  # type: ignore[arg-type]
    (message,) = told(tracer)
    found = headers(message)
    assert list(found["properties"].items()) == [
        ("user_id", "guest"),
        ("timestamp", 1912276171),
        ("priority", 3),
        ("delivery_mode", 2),
        ("headers", {"CC": ["b"], "n": 5}),
        ("content_type", "text/plain"),
    ]
    assert found["routing_keys"] == ["q", "b", "secret"]
    client.ask(get("q"))
    assert headers(told(tracer)[0])["routing_keys"] == ["q", "b", "secret"]
    assert found["routed_queues"] == ["b", "q", "secret"], "the default exchange routes to names, there or not"


@pytest.mark.usefixtures("started")
def test_what_reaches_nobody_or_is_rolled_back_is_told_too(client: SessionClient, tracer: SessionClient) -> None:
    client.publish(b"x", exchange="amq.direct", key="k")
    client.publish(b"x", key="nowhere")
    direct, default = told(tracer)
    assert keys([direct, default]) == ["publish.amq.direct", "publish."]
    assert headers(direct)["routed_queues"] == []
    assert headers(default)["routed_queues"] == ["nowhere"]
    client.ask(TxSelect())
    client.publish(b"x", key="q")
    assert keys(told(tracer)) == ["publish."]
    client.ask(TxRollback())
    assert told(tracer) == []


@pytest.mark.usefixtures("started")
def test_what_comes_later_is_told_then(sessions: SessionLayer, client: SessionClient, tracer: SessionClient) -> None:
    """A delayed message when it comes and when it goes out; channels that were opened later are watched."""
    client.ask(exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    client.ask(queue_bind("q", "later"))
    client.publish(b"x", exchange="later", key="k", headers={"x-delay": 1000})
    (message,) = told(tracer)
    assert (message.method.routing_key, headers(message)["routed_queues"]) == ("publish.later", [])
    sessions.core.advance(1000)
    assert told(tracer) == []
    client.ask(ChannelOpen(), channel=2)
    client.send(consume("q", "c", no_ack=True), channel=2)
    (message,) = told(tracer)
    assert (message.method.routing_key, headers(message)["channel"]) == ("deliver.q", 2)


@pytest.mark.usefixtures("started")
def test_what_is_told_is_not_told_again(client: SessionClient, tracer: SessionClient) -> None:
    """A queue may have both what is published and what is told of it, the latter first."""
    client.ask(queue_bind("q", "amq.rabbitmq.trace", "publish.#"))
    tracer.send(consume("told", "c", no_ack=True))
    client.publish(b"x", key="q")
    (_, message) = tracer.received()
    assert (message.method.routing_key, message.body) == ("publish.", b"x")
    client.send(consume("q", "c", no_ack=True))
    assert keys([item for item in client.received() if isinstance(item, Message)]) == ["publish.", "q"]
    assert keys(tracer.received()) == ["deliver.q"], "of the message, not of what was told of it"


def test_off_it_leaves_no_trace(sessions: SessionLayer, client: SessionClient, tracer: SessionClient) -> None:
    """Nothing is told, and routes are remembered again. On in another virtual host it is off in this one."""
    firehose.start(sessions.core.broker.add_vhost("other"))
    client.ask(queue_bind("q", "amq.direct", "k"))
    client.publish(b"x", key="q")
    assert told(tracer) == []
    firehose.start(sessions.core.vhost)
    client.publish(b"x", exchange="amq.direct", key="k")
    client.publish(b"x", key="q")
    assert keys(told(tracer)) == ["publish.amq.direct", "publish."]
    firehose.stop(sessions.core.vhost)
    for _ in range(3):
        client.publish(b"x", exchange="amq.direct", key="k")
        client.publish(b"x", key="q")
    client.ask(get("q"))
    client.send(consume("q", "c", no_ack=True))
    assert told(tracer) == []
    for route in client.connection.routes.by_arguments.values():
        assert route.routed is (route.queues is not None) is bool(route.name)
