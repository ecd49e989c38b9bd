"""Publisher confirms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    TxSelect,
)
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message
from harness.clients.queue_steps import drain
from harness.clients.shorthand import ack, consume, exchange_declare, queue_bind, queue_declare, queue_delete
from harness.clients.wire_client import Client

Name = Callable[..., str]
PERSISTENT = BasicProperties(delivery_mode=2)


@pytest.fixture
def queue(client: Client, name: Name) -> str:
    client.ask(ConfirmSelect(False))
    return str(client.ask(queue_declare(name(), exclusive=True)).queue)


def confirmed(client: Client, count: int) -> set[int]:
    """Await that so many publishes are confirmed, each once; return their numbers."""
    numbers: set[int] = set()
    while len(numbers) < count:
        item = client.expect(BasicAck)
        new = set(range(1, item.delivery_tag + 1)) - numbers if item.multiple else {item.delivery_tag}
        assert not new & numbers
        assert new
        numbers |= new
    return numbers


def test_every_publish_is_confirmed(client: Client, queue: str) -> None:
    """RabbitMQ's guide on confirms: numbered from 1, singly or up to a number."""
    for _ in range(50):
        client.publish(b"x", key=queue)
    assert confirmed(client, 50) == set(range(1, 51))


def test_persistent_messages_in_a_durable_queue(client: Client, name: Name) -> None:
    """RabbitMQ's guide on confirms."""
    queue = name()
    client.ask(ConfirmSelect(False))
    client.ask(queue_declare(queue, durable=True))
    for _ in range(20):
        client.publish(b"x", key=queue, properties=PERSISTENT)
    assert confirmed(client, 20) == set(range(1, 21))
    client.ask(queue_delete(queue))


def test_numbers_start_with_select(client: Client, name: Name) -> None:
    """RabbitMQ's guide on confirms: publishes before it do not count; a second select changes nothing."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True))
    client.publish(b"before", key=queue)
    client.ask(ConfirmSelect(False))
    client.publish(b"first", key=queue)
    assert confirmed(client, 1) == {1}
    client.ask(ConfirmSelect(False))
    client.publish(b"second", key=queue)
    assert client.expect(BasicAck).delivery_tag == 2


def test_select_without_waiting(client: Client, name: Name) -> None:
    """RabbitMQ's confirm.select, no-wait."""
    client.send(ConfirmSelect(True))
    client.publish(b"x", key=name())
    assert client.expect(BasicAck) == BasicAck(1, False)


def test_unroutable_messages_are_confirmed(client: Client, name: Name) -> None:
    """RabbitMQ's guide on confirms: at once, and a mandatory one is returned before."""
    client.ask(ConfirmSelect(False))
    client.publish(b"x", key=name())
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.publish(b"y", key=name(), mandatory=True)
    assert client.expect_message(BasicReturn).body == b"y"
    assert client.expect(BasicAck) == BasicAck(2, False)


def test_a_confirm_for_several_queues(client: Client, name: Name) -> None:
    """RabbitMQ's guide on confirms: one confirm when all queues have it."""
    exchange, durable, transient = name("x"), name(), name()
    client.ask(ConfirmSelect(False))
    client.ask(exchange_declare(exchange, "fanout", auto_delete=True))
    client.ask(queue_declare(durable, durable=True))
    client.ask(queue_declare(transient, exclusive=True))
    for queue in (durable, transient):
        client.ask(queue_bind(queue, exchange))
    client.publish(b"x", exchange=exchange, properties=PERSISTENT)
    assert client.expect(BasicAck) == BasicAck(1, False)
    assert [drain(client, queue) for queue in (durable, transient)] == [[b"x"], [b"x"]]
    client.ask(queue_delete(durable))


def test_consumed_before_it_was_written(client: Client, name: Name) -> None:
    """RabbitMQ: a persistent message acked at once is confirmed all the same, exactly once."""
    queue = name()
    client.ask(queue_declare(queue, durable=True))
    client.ask(ConfirmSelect(False))
    client.open_channel(2)
    client.ask(consume(queue, "t"), channel=2)
    for number in range(1, 21):
        client.publish(b"x", key=queue, properties=PERSISTENT)
        tag = client.expect_message(BasicDeliver, channel=2).method.delivery_tag
        client.send(ack(tag), channel=2)
        assert number == tag
    assert confirmed(client, 20) == set(range(1, 21))
    client.ask(queue_delete(queue), channel=2)


def test_a_publish_that_fails_is_not_confirmed(client: Client, name: Name) -> None:
    """RabbitMQ 3.10.8 on the wire: the channel closes instead, and counting starts again after it."""
    client.ask(ConfirmSelect(False))
    client.publish(b"x", exchange=name("x"))
    assert client.closing(BasicPublish).startswith("channel 404")
    client.ask(ConfirmSelect(False))
    client.publish(b"x", key=name())
    assert client.expect(BasicAck) == BasicAck(1, False)


def test_a_full_queue_that_rejects(client: Client, name: Name) -> None:
    """RabbitMQ's overflow reject-publish: nack, with the bit for requeue set (3.10.8 on the wire)."""
    queue = name()
    client.ask(ConfirmSelect(False))
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.ask(queue_declare(queue, exclusive=True, arguments=arguments))
    client.publish(b"1", key=queue)
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.publish(b"2", key=queue)
    refused = client.expect(BasicNack)
    assert refused.delivery_tag == 2
    assert drain(client, queue) == [b"1"]
    client.publish(b"3", key=queue)
    assert client.expect(BasicAck).delivery_tag == 3


def test_confirm_and_tx_exclude_each_other(client: Client) -> None:
    """RabbitMQ 3.10.8 on the wire."""
    client.ask(ConfirmSelect(False))
    assert client.refusal(TxSelect()) == "channel 406 PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    client.ask(TxSelect())
    assert client.refusal(ConfirmSelect(False)) == (
        "channel 406 PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    )


def test_confirms_are_of_one_channel(client: Client, queue: str) -> None:
    """RabbitMQ's guide on confirms."""
    client.open_channel(2)
    client.publish(b"x", key=queue, channel=2)
    client.publish(b"y", key=queue)
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.ask(exchange_declare("amq.direct", passive=True), channel=2)
    assert not any(isinstance(item, BasicAck | Message) for item in client.arrived(channel=2))
