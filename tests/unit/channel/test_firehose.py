"""The firehose: what is told of publishes and deliveries, to whom, and that nothing is when it is off.

Keys, headers and their order are RabbitMQ 3.10.8's on the wire, with tracing on in a virtual host of its own.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.session.channel import firehose
from broker.wire.field_tables import Field, to_python
from broker.wire.methods import BasicNack, ChannelOpen, TxRollback, TxSelect
from harness.clients.session_client import Conversation, Party
from harness.clients.shorthand import consume, exchange_declare, get, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Message

CONNECTION = "127.0.0.1:50000 -> 127.0.0.1:5672"
PLACE = {"node": "leveret", "vhost": "/", "connection": CONNECTION, "channel": 1, "user": "guest"}


@pytest.fixture
def client(party: Party) -> Conversation:
    client = party.join()
    client.ask(queue_declare("q"))
    return client


@pytest.fixture
def witness(party: Party) -> Conversation:
    """Somebody with a queue that hears everything."""
    witness = party.join()
    witness.ask(queue_declare("told"))
    witness.ask(queue_bind("told", "amq.rabbitmq.trace", "#"))
    return witness


def start(party: Party) -> None:
    firehose.start(party.core.vhost)


def stop(party: Party) -> None:
    firehose.stop(party.core.vhost)


def told(witness: Conversation) -> list[Message]:
    """What has been told since last asked."""
    found = []
    while isinstance(item := witness.ask(get("told", no_ack=True)), Message):
        assert item.method.exchange == "amq.rabbitmq.trace"
        found.append(item)
    return found


def headers(message: Message) -> dict[str, Any]:
    assert message.properties._replace(headers=None) == ((None,) * 14)
    return to_python(message.properties.headers or {})


def keys(messages: list[Message]) -> list[str]:
    return [message.method.routing_key for message in messages]


def test_a_publish_is_told(party: Party, client: Conversation, witness: Conversation) -> None:
    start(party)
    client.ask(exchange_declare("x", "fanout"))
    client.ask(queue_bind("q", "x"))
    client.publish(b"body", exchange="x", key="k")
    (message,) = told(witness)
    assert (message.method.routing_key, message.body) == ("publish.x", b"body")
    expected = {"exchange_name": "x", "routing_keys": ["k"], "properties": {}, **PLACE, "routed_queues": ["q"]}
    assert headers(message) == expected
    assert list(headers(message)) == list(expected)
    assert (message.properties.headers or {})["channel"] == Field("I", 1)


def test_a_delivery_and_a_get_are_told(party: Party, client: Conversation, witness: Conversation) -> None:
    client.publish(b"1", key="q")
    client.publish(b"2", key="q")
    start(party)
    client.ask(get("q", no_ack=True))
    client.send(consume("q", "c"))
    delivered = client.received()[-1]
    client.send(BasicNack(delivered.method.delivery_tag, False, True))
    first, second, third = told(witness)
    assert keys([first, second, third]) == ["deliver.q"] * 3
    assert [message.body for message in (first, second, third)] == [b"1", b"2", b"2"]
    expected = {
        "exchange_name": "",
        "routing_keys": ["q"],
        "properties": {},
        "node": "leveret",
        "redelivered": 0,
        **PLACE,
    }
    assert headers(first) == headers(second) == expected
    assert list(headers(first)) == list(expected)
    assert headers(third) == {**expected, "redelivered": 1}


def test_properties_come_the_last_first(party: Party, client: Conversation, witness: Conversation) -> None:
    """And of a timestamp the lower 32 bits, signed."""
    start(party)
    client.publish(
        b"",
        key="q",
        content_type="text/plain",
        headers={"CC": ["b"], "BCC": ["secret"], "n": 5},
        delivery_mode=2,
        priority=3,
        timestamp=1234567890123,
        user_id="guest",
    )
    (message,) = told(witness)
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
    assert headers(told(witness)[0])["routing_keys"] == ["q", "b", "secret"]
    assert found["routed_queues"] == ["b", "q", "secret"], "the default exchange routes to names, there or not"


def test_what_reaches_nobody_is_told_too(party: Party, client: Conversation, witness: Conversation) -> None:
    start(party)
    client.publish(b"x", exchange="amq.direct", key="k")
    client.publish(b"x", key="nowhere")
    direct, default = told(witness)
    assert keys([direct, default]) == ["publish.amq.direct", "publish."]
    assert headers(direct)["routed_queues"] == []
    assert headers(default)["routed_queues"] == ["nowhere"]


def test_a_delayed_message_is_told_of_when_it_comes_and_when_it_goes_out(
    party: Party, client: Conversation, witness: Conversation
) -> None:
    client.ask(exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    client.ask(queue_bind("q", "later"))
    start(party)
    client.publish(b"x", exchange="later", key="k", headers={"x-delay": 1000})
    (message,) = told(witness)
    assert (message.method.routing_key, headers(message)["routed_queues"]) == ("publish.later", [])
    party.core.advance(1000)
    assert told(witness) == []
    client.ask(get("q"))
    assert keys(told(witness)) == ["deliver.q"]


def test_a_transaction_is_told_as_it_is_made(party: Party, client: Conversation, witness: Conversation) -> None:
    start(party)
    client.ask(TxSelect())
    client.publish(b"x", key="q")
    assert keys(told(witness)) == ["publish."]
    client.ask(TxRollback())
    assert told(witness) == []


def test_channels_opened_later_are_watched(party: Party, client: Conversation, witness: Conversation) -> None:
    start(party)
    client.ask(ChannelOpen(), channel=2)
    client.send(consume("q", "c", no_ack=True), channel=2)
    client.publish(b"x", key="q")
    published, delivered = told(witness)
    assert keys([published, delivered]) == ["publish.", "deliver.q"]
    assert (headers(published)["channel"], headers(delivered)["channel"]) == (1, 2)


def test_what_is_told_is_not_told_again(party: Party, client: Conversation, witness: Conversation) -> None:
    start(party)
    witness.send(consume("told", "c", no_ack=True))
    client.publish(b"x", key="q")
    (_, message) = witness.received()
    assert (message.method.routing_key, message.body) == ("publish.", b"x")
    assert witness.received() == []


def test_a_queue_may_have_both_what_is_published_and_what_is_told_of_it(party: Party, client: Conversation) -> None:
    client.ask(queue_bind("q", "amq.rabbitmq.trace", "publish.#"))
    start(party)
    client.send(consume("q", "c", no_ack=True))
    client.publish(b"x", key="q")
    bodies = [item.method.routing_key for item in client.received() if isinstance(item, Message)]
    assert bodies == ["publish.", "q"]


def test_a_queue_whose_name_leaves_no_room_for_a_key_is_left_out(
    party: Party, client: Conversation, witness: Conversation
) -> None:
    start(party)
    long = "q" * 250
    client.ask(queue_declare(long))
    client.publish(b"x", key=long)
    client.ask(get(long, no_ack=True))
    client.ask(queue_delete(long))
    assert keys(told(witness)) == ["publish."]


def test_off_it_leaves_no_trace(party: Party, client: Conversation, witness: Conversation) -> None:
    """Nothing is told, and routes are remembered again."""
    client.ask(queue_bind("q", "amq.direct", "k"))
    start(party)
    client.publish(b"x", exchange="amq.direct", key="k")
    client.publish(b"x", key="q")
    assert keys(told(witness)) == ["publish.amq.direct", "publish."]
    stop(party)
    for _ in range(3):
        client.publish(b"x", exchange="amq.direct", key="k")
        client.publish(b"x", key="q")
    client.ask(get("q"))
    client.send(consume("q", "c", no_ack=True))
    assert told(witness) == []
    for route in client.connection.routes.by_arguments.values():
        assert route.routed is bool(route.name)
        assert (route.queues is not None) is bool(route.name)


def test_another_virtual_host_is_not_told_of(party: Party, client: Conversation, witness: Conversation) -> None:
    firehose.start(party.core.broker.add_vhost("other"))
    client.publish(b"x", key="q")
    client.ask(get("q"))
    assert told(witness) == []
