"""x-recent-history: RabbitMQ's plugin that gives the last messages to whoever is newly bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import (
    BasicCancel,
    BasicDeliver,
    BasicReject,
    BasicReturn,
    ConnectionClose,
    TxRollback,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import differs
from harness.clients.amqp_peer import Message
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import (
    consume,
    exchange_bind,
    exchange_declare,
    exchange_delete,
    get,
    prefetch,
    queue_bind,
    queue_declare,
    queue_delete,
    queue_unbind,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
KIND = "x-recent-history"


@pytest.fixture
def history(connect: Callable[..., Client], name: Name) -> Iterator[str]:
    """An exchange of this type, remembering as many as it does by itself."""
    exchange, owner = name("x"), connect()
    owner.ask(exchange_declare(exchange, KIND))
    yield exchange
    owner.ask(exchange_delete(exchange))


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    """A queue that is bound to nothing."""
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def publish(client: Client, exchange: str, *bodies: bytes, **options: Any) -> None:
    for body in bodies:
        client.publish(body, exchange=exchange, **options)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_who_comes_late_gets_the_last_twenty(client: Client, history: str, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: in their order, and from then on everything."""
    publish(client, history, *numbered(25), key="k")
    client.ask(queue_bind(queue, history, "any key"))
    assert drain(client, queue) == numbered(25)[5:]
    publish(client, history, b"new", key="other")
    assert drain(client, queue) == [b"new"]


@pytest.mark.parametrize("length", [1, 3, 1000])
def test_how_many_are_remembered(client: Client, name: Name, queue: str, length: int) -> None:
    """RabbitMQ 3.10.8 on the wire: x-recent-history-length."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, KIND, auto_delete=True, arguments={"x-recent-history-length": length}))
    publish(client, exchange, *numbered(30))
    client.ask(queue_bind(queue, exchange))
    assert drain(client, queue) == numbered(30)[-length:]


def test_what_was_sent_comes_as_it_was(client: Client, history: str, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: also what was returned because nobody was bound."""
    properties = BasicProperties("text/plain", headers=from_python({"a": 1}), delivery_mode=2, message_id="id")
    publish(client, history, b"x", key="k", mandatory=True, properties=properties)
    assert client.expect_message(BasicReturn).method.reply_text == "NO_ROUTE"
    client.ask(queue_bind(queue, history))
    (message,) = drain_messages(client, queue)
    method = message.method
    assert (method.exchange, method.routing_key, method.redelivered) == (history, "k", False)
    assert message.properties == properties


def test_each_new_binding_brings_it_again(client: Client, history: str, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: another key is another binding, the same one is none."""
    publish(client, history, *numbered(3))
    client.ask(queue_bind(queue, history, "one"))
    client.ask(queue_bind(queue, history, "one"))
    client.ask(queue_bind(queue, history, "two"))
    assert drain(client, queue) == numbered(3) * 2
    publish(client, history, b"once")
    assert drain(client, queue) == [b"once"]
    client.ask(queue_unbind(queue, history, "one"))
    client.ask(queue_bind(queue, history, "one"))
    assert drain(client, queue) == [*numbered(3), b"once"]


def test_what_must_not_be_remembered(client: Client, history: str, queue: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: the header must be a boolean, and true; who is bound gets the message anyhow."""
    bound = client.ask(queue_declare(name(), exclusive=True)).queue
    client.ask(queue_bind(bound, history))
    values = {b"true": True, b"false": False, b"one": 1, b"text": "true"}
    for body, value in values.items():
        publish(client, history, body, properties=with_headers({"x-recent-history-no-store": value}))
    assert drain(client, bound) == list(values)
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == [b"false", b"one", b"text"]


def test_a_bound_exchange_gets_the_latest_first(client: Client, history: str, queue: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: it hands its memory out in the order it keeps it."""
    fanout = name("x")
    client.ask(exchange_declare(fanout, "fanout", auto_delete=True))
    client.ask(queue_bind(queue, fanout))
    publish(client, history, *numbered(3))
    client.ask(exchange_bind(fanout, history))
    assert drain(client, queue) == numbered(3)[::-1]
    publish(client, history, b"new")
    assert drain(client, queue) == [b"new"]


def test_a_bound_exchange_routes_by_all_the_keys_there_were(
    client: Client, history: str, queue: str, name: Name
) -> None:
    """RabbitMQ 3.10.8 on the wire: by those in BCC too, of which the message tells nobody."""
    direct = name("x")
    client.ask(exchange_declare(direct, "direct", auto_delete=True))
    for key in ("copied", "blind"):
        client.ask(queue_bind(queue, direct, key))
    publish(client, history, b"1", key="k", properties=with_headers({"CC": ["copied"]}))
    publish(client, history, b"2", key="k", properties=with_headers({"BCC": ["blind"]}))
    client.ask(exchange_bind(direct, history))
    messages = drain_messages(client, queue)
    assert [(message.body, message.properties.headers) for message in messages] == [
        (b"2", {}),
        (b"1", from_python({"CC": ["copied"]})),
    ]


@differs("Leveret binds the exchange and drops what reaches nobody: the client has done nothing wrong")
def test_a_bound_exchange_must_have_a_queue_for_each_message(client: Client, history: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    publish(client, history, b"1", key="to nobody")
    client.send(exchange_bind("amq.direct", history))
    assert client.expect(ConnectionClose).reply_code == 541


@differs("Leveret hands a stream what any queue is handed")
def test_a_stream_gets_nothing_of_the_past(client: Client, history: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    stream = name("stream")
    client.ask(queue_declare(stream, durable=True, arguments={"x-queue-type": "stream"}))
    publish(client, history, b"past")
    client.ask(queue_bind(stream, history))
    deposit(client, b"new", exchange=history, key="k")
    client.ask(prefetch(1))
    client.ask(consume(stream, "c", arguments={"x-stream-offset": "first"}))
    message = client.expect_message(BasicDeliver)
    client.ask(BasicCancel("c", False))
    client.ask(queue_delete(stream))
    assert message.body == b"new"


def test_what_comes_by_way_of_another_exchange_is_remembered(
    client: Client, history: str, queue: str, name: Name
) -> None:
    """RabbitMQ 3.10.8 on the wire; routes that a publisher's earlier messages took are no excuse."""
    fanout, other = name("x"), name()
    client.ask(exchange_declare(fanout, "fanout"))
    client.ask(exchange_bind(history, fanout))
    client.ask(queue_declare(other, exclusive=True))
    client.ask(queue_bind(other, history))
    publish(client, fanout, *numbered(3))
    assert drain(client, other) == numbered(3)
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == numbered(3)
    client.ask(exchange_delete(fanout))


def test_a_transaction_is_remembered_before_its_commit(client: Client, history: str, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: routing happens at the publish, and a rollback does not undo it."""
    client.open_channel(2)
    client.ask(TxSelect(), channel=2)
    client.publish(b"t", exchange=history, channel=2)
    client.ask(TxRollback(), channel=2)
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == [b"t"]


def test_a_full_queue_refuses_what_it_is_handed(client: Client, history: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True, arguments={"x-max-length": 2, "x-overflow": "reject-publish"}))
    publish(client, history, *numbered(4))
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == numbered(2)


def test_the_alternate_exchange_does_not_hinder_memory(client: Client, name: Name, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange, alternate = name("x"), name("x")
    client.ask(exchange_declare(alternate, "fanout", auto_delete=True))
    client.ask(exchange_declare(exchange, KIND, auto_delete=True, arguments={"alternate-exchange": alternate}))
    client.ask(queue_bind(queue, alternate))
    publish(client, exchange, b"x")
    assert drain(client, queue) == [b"x"]
    client.ask(queue_bind(queue, exchange))
    assert drain(client, queue) == [b"x"]


def test_dead_letters_are_remembered(client: Client, history: str, queue: str, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    dying, witness = name(), name()
    client.ask(queue_declare(dying, exclusive=True, arguments={"x-dead-letter-exchange": history}))
    client.ask(queue_declare(witness, exclusive=True))
    client.ask(queue_bind(witness, history))
    deposit(client, b"dead", key=dying)
    client.send(get(dying))
    item = client.receive()
    assert isinstance(item, Message)
    client.send(BasicReject(item.method.delivery_tag, False))
    while not drain(client, witness):
        pass
    client.ask(queue_bind(queue, history))
    (message,) = drain_messages(client, queue)
    assert (message.body, message.method.routing_key) == (b"dead", dying)
    assert "x-death" in (message.properties.headers or {})


def test_a_new_exchange_remembers_nothing(client: Client, history: str, queue: str) -> None:
    """RabbitMQ 3.10.8 on the wire: memory goes with the exchange."""
    publish(client, history, b"x")
    client.ask(exchange_delete(history))
    client.ask(exchange_declare(history, KIND))
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == []


@pytest.mark.parametrize("kind", list("bsIl"))
def test_lengths_of_any_signed_width(client: Client, name: Name, kind: str) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    exchange = name("x")
    client.ask(exchange_declare(exchange, KIND, arguments={"x-recent-history-length": Field(kind, 7)}))
    client.ask(exchange_declare(exchange, KIND, arguments={"x-recent-history-length": -1}))
    client.ask(exchange_delete(exchange))


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (0, "0"),
        (-3, "-3"),
        (Field("B", 7), "7"),
        (Field("u", 7), "7"),
        (Field("i", 7), "7"),
        (Field("T", 7), "7"),
        ("abc", '<<"abc">>'),
        ("", "<<>>"),
        ("é", '<<"é">>'),
        ('a"b\\c\n', '<<"a\\"b\\\\c\\n">>'),
        ("a\x01", "<<97,1>>"),
        (True, "true"),
        (Field("V", None), "undefined"),
        (Field("d", 1.5), "1.5"),
        (Field("d", 1e22), "1.0e22"),
        (Field("f", 2.0), "2.0"),
        (Field("D", (1, 5)), "{1,5}"),
        (Field("x", b"abc"), '<<"abc">>'),
        (Field("A", [Field("I", 1), Field("S", b"x")]), '[{signedint,1},{longstr,<<"x">>}]'),
        (Field("F", {"a": Field("I", 1)}), '[{<<"a">>,signedint,1}]'),
    ],
)
def test_impossible_lengths(client: Client, name: Name, length: object, shown: str) -> None:
    """RabbitMQ 3.10.8 on the wire: unsigned kinds are not taken for integers."""
    refused = client.refusal(exchange_declare(name("x"), KIND, arguments={"x-recent-history-length": length}))
    assert refused == (
        f"channel 406 PRECONDITION_FAILED - Invalid argument {shown}, 'x-recent-history-length' "
        "must be a positive integer"
    )
