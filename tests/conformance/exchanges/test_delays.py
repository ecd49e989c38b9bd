"""Exchanges of type x-delayed-message.

What is expected is what the README of RabbitMQ's plugin rabbitmq_delayed_message_exchange says, and what its source
did in the versions before 3.13. The plugin is a download of its own: the reference broker has not got it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.field_tables import Field
from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicReturn,
    ConfirmSelect,
    ExchangeDeclareOk,
    TxCommit,
    TxRollback,
    TxSelect,
)
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.amqp_peer import Message
from harness.clients.contents import with_headers
from harness.clients.queue_steps import deposit, drain, drain_messages
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_bind,
    exchange_declare,
    exchange_delete,
    nack,
    queue_bind,
    queue_declare,
)
from harness.clients.wire_client import Client
from harness.waiting import eventually

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="rabbitmq_delayed_message_exchange is not part of RabbitMQ")

Name = Callable[..., str]
DELAYED = "x-delayed-message"


def declare(client: Client, exchange: str, type_: str = "fanout", **options: Any) -> None:
    arguments = {"x-delayed-type": type_, **options.pop("arguments", {})}
    client.ask(exchange_declare(exchange, DELAYED, arguments=arguments, **options))


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


@pytest.fixture
def exchange(client: Client, name: Name, queue: str) -> str:
    """A delayed fanout that leads to the queue."""
    exchange = name("x")
    declare(client, exchange, auto_delete=True)
    client.ask(queue_bind(queue, exchange))
    return exchange


def delayed(milliseconds: Any) -> Any:
    return with_headers({"x-delay": milliseconds}, delivery_mode=1)


def delivered(client: Client, count: int) -> list[Message]:
    return [client.expect_message(BasicDeliver) for _ in range(count)]


def test_messages_come_in_the_order_of_their_delays(client: Client, queue: str, exchange: str) -> None:
    client.ask(consume(queue, no_ack=True))
    for delay in (250, 50, 150, 100, 50, 200):
        client.publish(b"%d" % delay, exchange=exchange, properties=delayed(delay))
    found = delivered(client, 6)
    assert [message.body for message in found] == [b"50", b"50", b"100", b"150", b"200", b"250"]
    assert [message.properties.headers["x-delay"] for message in found][-1] == Field("I", -250)
    assert {message.method.exchange for message in found} == {exchange}


@pytest.mark.parametrize("delay", [0, -100, 1 << 32, "never", True])
def test_without_a_delay_that_can_be_granted_a_message_goes_at_once(
    client: Client, queue: str, exchange: str, delay: Any
) -> None:
    deposit(client, b"", key="", exchange=exchange, properties=delayed(delay))
    (message,) = drain_messages(client, queue)
    assert message.properties == delayed(delay)


def test_a_number_written_as_text_counts(client: Client, queue: str, exchange: str) -> None:
    deposit(client, b"", key="", exchange=exchange, properties=delayed("600000"))
    assert drain(client, queue) == []


def test_routing_is_that_of_the_type_underneath(client: Client, name: Name, queue: str) -> None:
    exchange = name("x")
    declare(client, exchange, "topic", auto_delete=True)
    for key in ("a.b.c", "a.*.c", "a.#"):
        client.ask(queue_bind(queue, exchange, key))
    client.ask(consume(queue, no_ack=True))
    for key in ("a.b.c", "a.z.c", "b.b.c", "a.j.k"):
        client.publish(key.encode(), exchange=exchange, key=key, properties=delayed(20))
    assert [message.body for message in delivered(client, 3)] == [b"a.b.c", b"a.z.c", b"a.j.k"]


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (
            {},
            "channel 406 PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (
            {"x-delayed-type": DELAYED},
            "channel 406 PRECONDITION_FAILED - Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        (
            {"x-delayed-type": "x-not-valid-type"},
            "connection 503 COMMAND_INVALID - unknown exchange type 'x-not-valid-type'",
        ),
    ],
)
def test_declarations_that_are_refused(client: Client, name: Name, arguments: Any, refused: str) -> None:
    assert client.refusal(exchange_declare(name("x"), DELAYED, arguments=arguments)) == refused


def test_a_second_declaration_need_not_name_the_type_underneath(client: Client, exchange: str) -> None:
    """The plugin looks at x-delayed-type when it makes an exchange; afterwards only alternate-exchange is compared."""
    assert client.ask(exchange_declare(exchange, DELAYED, auto_delete=True)) == ExchangeDeclareOk()
    arguments = {"x-delayed-type": "x-not-valid-type"}
    assert client.ask(exchange_declare(exchange, DELAYED, auto_delete=True, arguments=arguments)) == ExchangeDeclareOk()
    assert client.refusal(exchange_declare(exchange, "fanout", auto_delete=True)) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
        "received 'fanout' but current is ''x-delayed-message''"
    )


def test_a_mandatory_message_is_not_returned_while_it_waits(client: Client, queue: str, exchange: str) -> None:
    """Nor afterwards. (The plugin returns it at once, although it will be delivered.)"""
    client.ask(ConfirmSelect(False))
    client.publish(b"", exchange=exchange, mandatory=True, properties=delayed(20))
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.ask(consume(queue, no_ack=True))
    delivered(client, 1)


def test_a_mandatory_message_that_does_not_wait_is_returned(client: Client, name: Name) -> None:
    exchange = name("x")
    declare(client, exchange, "direct")
    client.publish(b"", exchange=exchange, key="nowhere", mandatory=True, properties=delayed(0))
    assert client.expect_message(BasicReturn).method.reply_code == 312
    client.ask(exchange_delete(exchange))


def test_the_alternate_exchange_gets_what_has_no_binding_when_the_time_has_come(client: Client, name: Name) -> None:
    first, second, queue = name("x"), name("x"), name()
    declare(client, first, "direct", arguments={"alternate-exchange": second})
    client.ask(exchange_declare(second, "fanout"))
    client.ask(queue_declare(queue, exclusive=True))
    client.ask(queue_bind(queue, second))
    client.ask(consume(queue, no_ack=True))
    client.publish(b"", exchange=first, key="k", properties=delayed(20))
    (message,) = delivered(client, 1)
    assert message.properties.headers == {"x-delay": Field("I", -20)}
    for exchange in (first, second):
        client.ask(exchange_delete(exchange))


def test_an_exchange_before_and_one_behind(client: Client, name: Name, queue: str, exchange: str) -> None:
    before, behind, last = name("x"), name("x"), name()
    client.ask(exchange_declare(before, "fanout"))
    declare(client, behind)
    client.ask(queue_declare(last, exclusive=True))
    client.ask(exchange_bind(exchange, before))
    client.ask(exchange_bind(behind, exchange))
    client.ask(queue_bind(last, behind))
    client.publish(b"1", exchange=before, properties=delayed(20))
    for name_ in (queue, last):
        eventually(lambda name_=name_: drain(client, name_) == [b"1"], "the message to arrive")
    for name_ in (before, behind):
        client.ask(exchange_delete(name_))


def test_deleting_the_exchange_ends_the_waiting(client: Client, name: Name, queue: str) -> None:
    exchange = name("x")
    declare(client, exchange)
    client.ask(queue_bind(queue, exchange))
    client.publish(b"gone", exchange=exchange, properties=delayed(50))
    client.ask(exchange_delete(exchange))
    declare(client, exchange)
    client.ask(queue_bind(queue, exchange))
    client.ask(consume(queue, no_ack=True))
    client.publish(b"later", exchange=exchange, properties=delayed(100))
    assert [message.body for message in delivered(client, 1)] == [b"later"]
    client.ask(exchange_delete(exchange))


def test_a_transaction_delays_when_it_is_committed(client: Client, queue: str, exchange: str) -> None:
    client.ask(TxSelect())
    client.publish(b"undone", exchange=exchange, properties=delayed(1))
    client.ask(TxRollback())
    client.publish(b"done", exchange=exchange, properties=delayed(20))
    client.ask(TxCommit())
    client.ask(consume(queue, no_ack=True))
    assert [message.body for message in delivered(client, 1)] == [b"done"]


def test_a_transaction_outlives_its_exchange(client: Client, name: Name) -> None:
    exchange = name("x")
    declare(client, exchange)
    client.ask(TxSelect())
    client.publish(b"", exchange=exchange, properties=delayed(1))
    client.ask(exchange_delete(exchange))
    client.ask(TxCommit())


def test_rejected_messages_are_not_delayed_again(client: Client, name: Name, exchange: str) -> None:
    """A dead letter keeps its negative header (rabbitmq-delayed-message-exchange#52)."""
    work = name()
    client.ask(queue_declare(work, exclusive=True, arguments={"x-dead-letter-exchange": exchange}))
    client.ask(queue_bind(work, exchange))
    client.ask(consume(work))
    client.publish(b"1", exchange=exchange, properties=delayed(20))
    (message,) = delivered(client, 1)
    client.send(nack(message.method.delivery_tag, requeue=False))
    (again,) = delivered(client, 1)
    assert again.properties.headers["x-delay"] == Field("I", -20)
    client.send(ack(again.method.delivery_tag))


@pytest.mark.parametrize("mode", [1, 2])
def test_blind_copies_go_where_they_should_and_are_not_seen(client: Client, name: Name, mode: int) -> None:
    before, exchange, at_once = name("x"), name("x"), name()
    client.ask(exchange_declare(before, "fanout"))
    declare(client, exchange, "direct", durable=True)
    client.ask(exchange_bind(exchange, before))
    client.ask(queue_declare(at_once, exclusive=True))
    client.ask(queue_bind(at_once, before))
    queues = {key: name() for key in ("to", "cc", "bcc")}
    for key, queue in queues.items():
        client.ask(queue_declare(queue, exclusive=True))
        client.ask(queue_bind(queue, exchange, key))
    headers = {"x-delay": 20, "CC": ["cc"], "BCC": ["bcc"]}
    client.publish(b"", exchange=before, key="to", properties=with_headers(headers, delivery_mode=mode))
    for queue in (at_once, *queues.values()):
        (message,) = eventually(lambda queue=queue: drain_messages(client, queue), "a copy")
        assert message.properties.headers.keys() == {"x-delay", "CC"}
    for name_ in (before, exchange):
        client.ask(exchange_delete(name_))
