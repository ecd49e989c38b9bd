"""Publisher confirms."""

from __future__ import annotations

import pytest

from broker.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicPublish,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    TxSelect,
)
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.queue_steps import drain
from harness.clients.shorthand import ack, consume, exchange_declare, queue_bind
from harness.clients.wire_client import Client
from tests.conformance import Made


def confirmed(client: Client, count: int) -> set[int]:
    """Await the confirms of `count` publishes, each once; return their numbers."""
    numbers: set[int] = set()
    while len(numbers) < count:
        item = client.expect(BasicAck)
        new = set(range(1, item.delivery_tag + 1)) - numbers if item.multiple else {item.delivery_tag}
        assert not new & numbers
        assert new
        numbers |= new
    return numbers


@pytest.mark.parametrize("durable", [False, True], ids=["transient", "persistent"])
def test_every_publish_is_confirmed(client: Client, declare: Made, durable: bool) -> None:
    """RabbitMQ's guide on confirms: numbered from 1, singly or up to a number."""
    queue = declare(queue_type="classic") if durable else declare()
    client.ask(ConfirmSelect(False))
    for _ in range(30):
        client.publish(b"x", key=queue, properties=PERSISTENT if durable else None)
    assert confirmed(client, 30) == set(range(1, 31))


@pytest.mark.parametrize("no_wait", [False, True])
def test_numbers_start_with_select(client: Client, queue: str, no_wait: bool) -> None:
    """RabbitMQ's guide on confirms: publishes before it and on other channels do not count, nor does a second select."""
    client.open_channel(2)
    for number in (1, 2):
        client.publish(b"not counted", key=queue, channel=number)
    client.send(ConfirmSelect(no_wait))
    if not no_wait:
        client.expect(ConfirmSelectOk)
    client.publish(b"x", key=queue, channel=2)
    client.publish(b"first", key=queue)
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.ask(ConfirmSelect(False))
    client.publish(b"second", key=queue)
    assert client.expect(BasicAck).delivery_tag == 2
    client.ask(exchange_declare("amq.direct", passive=True), channel=2)
    assert not any(isinstance(item, BasicAck | Message) for item in client.arrived(channel=2))


def test_what_is_routed_to_nobody(client: Client, name: Made) -> None:
    """RabbitMQ's guide on confirms: it is confirmed at once, and a mandatory one is returned before.

    A publish that fails closes the channel instead, and counting starts again.
    """
    client.ask(ConfirmSelect(False))
    client.publish(b"x", key=name())
    assert client.expect(BasicAck) == BasicAck(1, False)
    client.publish(b"y", key=name(), mandatory=True)
    assert client.expect_message(BasicReturn).body == b"y"
    assert client.expect(BasicAck) == BasicAck(2, False)
    client.publish(b"x", exchange=name("x"))
    assert client.closing(BasicPublish).startswith("channel 404")
    client.ask(ConfirmSelect(False))
    client.publish(b"x", key=name())
    assert client.expect(BasicAck) == BasicAck(1, False)


def test_a_confirm_for_several_queues(client: Client, new_exchange: Made, new_queue: Made, declare: Made) -> None:
    """RabbitMQ's guide on confirms: one confirm when all queues have it."""
    exchange, durable = new_exchange("fanout"), declare(queue_type="classic")
    transient = new_queue(exchange)
    client.ask(queue_bind(durable, exchange))
    client.ask(ConfirmSelect(False))
    client.publish(b"x", exchange=exchange, properties=PERSISTENT)
    assert client.expect(BasicAck) == BasicAck(1, False)
    assert [drain(client, queue) for queue in (durable, transient)] == [[b"x"], [b"x"]]


def test_consumed_before_it_was_written(client: Client, declare: Made) -> None:
    """RabbitMQ: a persistent message acked at once is confirmed all the same, exactly once."""
    queue = declare(queue_type="classic")
    client.ask(ConfirmSelect(False))
    client.open_channel(2)
    client.ask(consume(queue, "t"), channel=2)
    for number in range(1, 21):
        client.publish(b"x", key=queue, properties=PERSISTENT)
        tag = client.expect_message(BasicDeliver, channel=2).method.delivery_tag
        client.send(ack(tag), channel=2)
        assert number == tag
    assert confirmed(client, 20) == set(range(1, 21))


def test_confirm_and_tx_exclude_each_other(client: Client) -> None:
    client.ask(ConfirmSelect(False))
    assert client.refusal(TxSelect()) == "channel 406 PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    client.ask(TxSelect())
    assert client.refusal(ConfirmSelect(False)) == (
        "channel 406 PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    )
