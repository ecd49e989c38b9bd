"""x-recent-history: RabbitMQ's plugin that gives the last messages to whoever is newly bound."""

from __future__ import annotations

from typing import Any

import pytest

from broker.wire.field_tables import Field, from_python
from broker.wire.methods import BasicDeliver, BasicReject, BasicReturn, ConnectionClose, TxRollback, TxSelect
from broker.wire.properties import BasicProperties
from harness.brokers.rabbitmq_reference import differs
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain, drain_messages, fetch, numbered
from harness.clients.shorthand import (
    consume,
    exchange_bind,
    exchange_declare,
    exchange_delete,
    prefetch,
    queue_bind,
    queue_unbind,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Made

KIND = "x-recent-history"


@pytest.fixture
def history(new_exchange: Made) -> str:
    """An exchange of this type, remembering as many as it does by itself."""
    return new_exchange(KIND)


def publish(client: Client, exchange: str, *bodies: bytes, **options: Any) -> None:
    for body in bodies:
        client.publish(body, exchange=exchange, **options)


@pytest.mark.parametrize("length", [None, 1, 3, 1000])
def test_who_comes_late_gets_the_last_ones(client: Client, new_exchange: Made, queue: str, length: int | None) -> None:
    """Twenty, or as many as `x-recent-history-length`: in their order, and from then on everything."""
    exchange = new_exchange(KIND, arguments={} if length is None else {"x-recent-history-length": length})
    publish(client, exchange, *numbered(30), key="k")
    client.ask(queue_bind(queue, exchange, "any key"))
    assert drain(client, queue) == numbered(30)[-(length or 20) :]
    publish(client, exchange, b"new", key="other")
    assert drain(client, queue) == [b"new"]


def test_what_was_sent_comes_as_it_was(client: Client, history: str, queue: str) -> None:
    """Also what was returned because nobody was bound."""
    properties = BasicProperties("text/plain", headers=from_python({"a": 1}), delivery_mode=2, message_id="id")
    publish(client, history, b"x", key="k", mandatory=True, properties=properties)
    assert client.expect_message(BasicReturn).method.reply_text == "NO_ROUTE"
    client.ask(queue_bind(queue, history))
    (message,) = drain_messages(client, queue)
    method = message.method
    assert (method.exchange, method.routing_key, method.redelivered) == (history, "k", False)
    assert message.properties == properties


def test_each_new_binding_brings_it_again(client: Client, history: str, queue: str) -> None:
    """Another key is another binding, the same one is none. Memory goes with the exchange."""
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
    client.ask(exchange_delete(history))
    client.ask(exchange_declare(history, KIND))
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == []


def test_what_must_not_be_remembered(client: Client, history: str, queue: str, new_queue: Made) -> None:
    """The header must be a boolean, and true; who is bound gets the message anyhow."""
    bound = new_queue(history)
    values = {b"true": True, b"false": False, b"one": 1, b"text": "true"}
    for body, value in values.items():
        publish(client, history, body, properties=with_headers({"x-recent-history-no-store": value}))
    assert drain(client, bound) == list(values)
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == [b"false", b"one", b"text"]


def test_a_bound_exchange_gets_the_latest_first(
    client: Client, history: str, new_exchange: Made, new_queue: Made
) -> None:
    """It hands its memory out in the order it keeps it."""
    queue = new_queue(fanout := new_exchange("fanout"))
    publish(client, history, *numbered(3))
    client.ask(exchange_bind(fanout, history))
    assert drain(client, queue) == numbered(3)[::-1]
    publish(client, history, b"new")
    assert drain(client, queue) == [b"new"]


def test_a_bound_exchange_routes_by_all_the_keys_there_were(
    client: Client, history: str, queue: str, new_exchange: Made
) -> None:
    """By those in BCC too, of which the message tells nobody."""
    direct = new_exchange()
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
    publish(client, history, b"1", key="to nobody")
    client.send(exchange_bind("amq.direct", history))
    assert client.expect(ConnectionClose).reply_code == 541


@differs("Leveret hands a stream what any queue is handed")
def test_a_stream_gets_nothing_of_the_past(client: Client, history: str, declare: Made) -> None:
    stream = declare(queue_type="stream")
    publish(client, history, b"past")
    client.ask(queue_bind(stream, history))
    deposit(client, b"new", exchange=history, key="k")
    client.ask(prefetch(1))
    client.ask(consume(stream, "c", arguments={"x-stream-offset": "first"}))
    assert client.expect_message(BasicDeliver).body == b"new"


def test_what_comes_by_way_of_another_exchange_is_remembered(
    client: Client, history: str, new_exchange: Made, new_queue: Made
) -> None:
    """Routes that a publisher's earlier messages took are no excuse. A full queue refuses what it is handed."""
    client.ask(exchange_bind(history, fanout := new_exchange("fanout")))
    other = new_queue(history)
    publish(client, fanout, *numbered(3))
    assert drain(client, other) == numbered(3)
    assert drain(client, new_queue(history)) == numbered(3)
    assert drain(client, new_queue(history, max_length=2, overflow="reject-publish")) == numbered(2)


def test_a_transaction_is_remembered_before_its_commit(client: Client, history: str, queue: str) -> None:
    """Routing happens at the publish, and a rollback does not undo it."""
    client.open_channel(2)
    client.ask(TxSelect(), channel=2)
    client.publish(b"t", exchange=history, channel=2)
    client.ask(TxRollback(), channel=2)
    client.ask(queue_bind(queue, history))
    assert drain(client, queue) == [b"t"]


def test_the_alternate_exchange_does_not_hinder_memory(client: Client, new_exchange: Made, new_queue: Made) -> None:
    queue = new_queue(alternate := new_exchange("fanout"))
    exchange = new_exchange(KIND, arguments={"alternate-exchange": alternate})
    publish(client, exchange, b"x")
    assert drain(client, queue) == [b"x"]
    client.ask(queue_bind(queue, exchange))
    assert drain(client, queue) == [b"x"]


def test_dead_letters_are_remembered(client: Client, history: str, new_queue: Made) -> None:
    dying, witness = new_queue(dead_letter_exchange=history), new_queue(history)
    deposit(client, b"dead", key=dying)
    fetch(client, dying)
    client.send(BasicReject(1, False))
    eventually(lambda: drain(client, witness), "the dead letter")
    (message,) = drain_messages(client, new_queue(history))
    assert (message.body, message.method.routing_key) == (b"dead", dying)
    assert "x-death" in (message.properties.headers or {})


@pytest.mark.parametrize("kind", list("bsIl"))
def test_lengths_of_any_signed_width(client: Client, new_exchange: Made, kind: str) -> None:
    exchange = new_exchange(KIND, arguments={"x-recent-history-length": Field(kind, 7)})
    client.ask(exchange_declare(exchange, KIND, arguments={"x-recent-history-length": -1}))


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
def test_impossible_lengths(client: Client, name: Made, length: object, shown: str) -> None:
    """Unsigned kinds are not taken for integers."""
    refused = client.refusal(exchange_declare(name("x"), KIND, arguments={"x-recent-history-length": length}))
    assert refused == (
        f"channel 406 PRECONDITION_FAILED - Invalid argument {shown}, 'x-recent-history-length' "
        "must be a positive integer"
    )
