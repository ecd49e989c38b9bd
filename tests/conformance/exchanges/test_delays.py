"""Exchanges of type x-delayed-message.

The expectations are from the README of RabbitMQ's plugin rabbitmq_delayed_message_exchange, and from its source in the
versions before 3.13. The plugin is a download of its own: the reference broker has not got it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from broker.wire.field_tables import Field
from broker.wire.methods import BasicAck, BasicReturn, ConfirmSelect, TxCommit, TxRollback, TxSelect
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.contents import with_headers
from harness.clients.queue_steps import bodies, deliveries, deposit, drain, drain_messages
from harness.clients.shorthand import ack, consume, exchange_bind, exchange_declare, exchange_delete, nack, queue_bind
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Made

pytestmark = pytest.mark.skipif(bool(REFERENCE), reason="rabbitmq_delayed_message_exchange is not part of RabbitMQ")

DELAYED = "x-delayed-message"


def underneath(kind: str = "fanout", **arguments: str) -> dict[str, Any]:
    """The arguments of an exchange that delays, and routes like this type when the time has come."""
    return {"x-delayed-type": kind, **{key.replace("_", "-"): value for key, value in arguments.items()}}


@pytest.fixture
def exchange(client: Client, new_exchange: Made, queue: str) -> str:
    """A delayed fanout that leads to the queue."""
    exchange = new_exchange(DELAYED, arguments=underneath())
    client.ask(queue_bind(queue, exchange))
    return exchange


def delayed(milliseconds: Any) -> Any:
    return with_headers({"x-delay": milliseconds}, delivery_mode=1)


def test_messages_come_in_the_order_of_their_delays(client: Client, queue: str, exchange: str) -> None:
    client.ask(consume(queue, no_ack=True))
    for delay in (250, 50, 150, 100, 50, 200):
        client.publish(b"%d" % delay, exchange=exchange, properties=delayed(delay))
    found = deliveries(client, 6)
    assert bodies(found) == [b"50", b"50", b"100", b"150", b"200", b"250"]
    assert [message.properties.headers["x-delay"] for message in found][-1] == Field("I", -250)
    assert {message.method.exchange for message in found} == {exchange}


@pytest.mark.parametrize("delay", [0, -100, 1 << 32, "never", True])
def test_without_a_delay_that_can_be_granted_a_message_goes_at_once(
    client: Client, queue: str, exchange: str, delay: Any
) -> None:
    """A number that is written as text counts."""
    deposit(client, b"waits", key="", exchange=exchange, properties=delayed("600000"))
    deposit(client, b"", key="", exchange=exchange, properties=delayed(delay))
    (message,) = drain_messages(client, queue)
    assert message.properties == delayed(delay)


UNTYPED = "channel 406 PRECONDITION_FAILED - Invalid argument, "


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ({}, UNTYPED + "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": 5}, UNTYPED + "'x-delayed-type' must be an existing exchange type"),
        ({"x-delayed-type": DELAYED}, UNTYPED + "'x-delayed-message' can't be used for 'x-delayed-type'"),
        ({"x-delayed-type": "x-odd"}, "connection 503 COMMAND_INVALID - unknown exchange type 'x-odd'"),
    ],
)
def test_declarations_that_are_refused(client: Client, name: Made, arguments: Any, refused: str) -> None:
    assert client.refusal(exchange_declare(name("x"), DELAYED, arguments=arguments)) == refused


def test_a_second_declaration_need_not_name_the_type_underneath(client: Client, exchange: str) -> None:
    """The plugin looks at x-delayed-type when it makes an exchange; afterwards only alternate-exchange is compared."""
    for arguments in ({}, {"x-delayed-type": "x-odd"}):
        client.ask(exchange_declare(exchange, DELAYED, arguments=arguments))
    assert client.refusal(exchange_declare(exchange, "fanout")) == (
        f"channel 406 PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
        "received 'fanout' but current is ''x-delayed-message''"
    )


def test_a_mandatory_message_is_not_returned_while_it_waits(client: Client, queue: str, new_exchange: Made) -> None:
    """Nor afterwards, as one that does not wait is. (The plugin returns it at once, although it will be delivered.)"""
    exchange = new_exchange(DELAYED, arguments=underneath("direct"))
    client.ask(queue_bind(queue, exchange, "k"))
    client.ask(ConfirmSelect(False))
    client.publish(b"", exchange=exchange, key="k", mandatory=True, properties=delayed(20))
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.ask(consume(queue, no_ack=True))
    deliveries(client, 1)
    client.publish(b"", exchange=exchange, key="nowhere", mandatory=True, properties=delayed(0))
    assert client.expect_message(BasicReturn).method.reply_code == 312


def test_the_alternate_exchange_gets_what_has_no_binding_when_the_time_has_come(
    client: Client, new_exchange: Made, new_queue: Made
) -> None:
    queue = new_queue(alternate := new_exchange("fanout"))
    exchange = new_exchange(DELAYED, arguments=underneath("direct", alternate_exchange=alternate))
    client.ask(consume(queue, no_ack=True))
    client.publish(b"", exchange=exchange, key="k", properties=delayed(20))
    (message,) = deliveries(client, 1)
    assert message.properties.headers == {"x-delay": Field("I", -20)}


def test_an_exchange_before_and_one_behind(
    client: Client, new_exchange: Made, new_queue: Made, queue: str, exchange: str
) -> None:
    before, behind = new_exchange("fanout"), new_exchange(DELAYED, arguments=underneath())
    last = new_queue(behind)
    client.ask(exchange_bind(exchange, before))
    client.ask(exchange_bind(behind, exchange))
    client.publish(b"1", exchange=before, properties=delayed(20))
    for reached in (queue, last):
        eventually(lambda reached=reached: drain(client, reached) == [b"1"], "the message to arrive")


def test_a_transaction_delays_when_it_is_committed(client: Client, queue: str, exchange: str) -> None:
    """It outlives its exchange."""
    client.ask(TxSelect())
    client.publish(b"undone", exchange=exchange, properties=delayed(1))
    client.ask(TxRollback())
    client.publish(b"done", exchange=exchange, properties=delayed(20))
    client.ask(TxCommit())
    client.ask(consume(queue, no_ack=True))
    assert bodies(deliveries(client, 1)) == [b"done"]
    client.publish(b"late", exchange=exchange, properties=delayed(1))
    client.ask(exchange_delete(exchange))
    client.ask(TxCommit())


def test_rejected_messages_are_not_delayed_again(client: Client, new_queue: Made, exchange: str) -> None:
    """A dead letter keeps its negative header (rabbitmq-delayed-message-exchange#52)."""
    client.ask(consume(new_queue(exchange, dead_letter_exchange=exchange)))
    client.publish(b"1", exchange=exchange, properties=delayed(20))
    (message,) = deliveries(client, 1)
    client.send(nack(message.method.delivery_tag, requeue=False))
    (again,) = deliveries(client, 1)
    assert again.properties.headers["x-delay"] == Field("I", -20)
    client.send(ack(again.method.delivery_tag))


@pytest.mark.parametrize("mode", [1, 2])
def test_blind_copies_go_where_they_should_and_are_not_seen(
    client: Client, new_exchange: Made, new_queue: Made, mode: int
) -> None:
    before = new_exchange("fanout")
    exchange = new_exchange(DELAYED, durable=True, arguments=underneath("direct"))
    client.ask(exchange_bind(exchange, before))
    queues = [new_queue(before), *(new_queue(exchange, key) for key in ("to", "cc", "bcc"))]
    headers = {"x-delay": 20, "CC": ["cc"], "BCC": ["bcc"]}
    client.publish(b"", exchange=before, key="to", properties=with_headers(headers, delivery_mode=mode))
    for queue in queues:
        (message,) = eventually(partial(drain_messages, client, queue), "a copy")
        assert message.properties.headers.keys() == {"x-delay", "CC"}
