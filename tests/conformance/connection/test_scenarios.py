"""Test scenarios of the 0-9-1 specification that no other file here plays through; each names its paragraph."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.wire.methods import BasicDeliver, BasicGetOk
from broker.wire.properties import BasicProperties
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import (
    ack,
    consume,
    exchange_declare,
    exchange_delete,
    get,
    queue_bind,
    queue_declare,
    queue_delete,
)
from harness.clients.wire_client import Client

Name = Callable[..., str]
Connect = Callable[..., Client]


def test_a_temporary_queue_binds_to_each_standard_exchange(client: Client) -> None:
    """1.6: "declares a temporary queue and attempts to bind to each required exchange instance"."""
    queue = client.ask(queue_declare("", exclusive=True)).queue
    for kind in ("fanout", "direct", "topic", "headers"):
        client.ask(queue_bind(queue, f"amq.{kind}", queue))
    client.publish(b"direct", exchange="amq.direct", key=queue)
    client.publish(b"topic", exchange="amq.topic", key=queue)
    assert drain(client, queue) == [b"direct", b"topic"]


def test_sixteen_exchanges(client: Client, name: Name) -> None:
    """1.6.2.1: at least sixteen exchanges in a virtual host."""
    exchanges = [name("x") for _ in range(16)]
    for exchange in exchanges:
        client.ask(exchange_declare(exchange))
    for exchange in exchanges:
        client.ask(exchange_declare(exchange, passive=True))
        client.ask(exchange_delete(exchange))


def test_many_queues(client: Client, name: Name) -> None:
    """1.7.2.1: at least 256 queues in a virtual host, each reached through the default exchange."""
    queues = [name() for _ in range(256)]
    for queue in queues:
        client.send(queue_declare(queue, exclusive=True, no_wait=True))
        client.publish(queue.encode(), key=queue)
    assert [drain(client, queue) for queue in queues] == [[queue.encode()] for queue in queues]


def test_a_durable_queue_binds_to_a_transient_exchange(client: Client, name: Name) -> None:
    """1.7.2.3: "the server MUST allow a durable queue to bind to a transient exchange"."""
    exchange, queue = name("x"), name()
    client.ask(exchange_declare(exchange, auto_delete=True))
    client.ask(queue_declare(queue, durable=True))
    client.ask(queue_bind(queue, exchange, "k"))
    client.publish(b"x", exchange=exchange, key="k")
    assert drain(client, queue) == [b"x"]
    client.ask(queue_delete(queue))


def test_a_queue_binds_to_several_exchanges(client: Client, name: Name) -> None:
    """1.7.2.3: at least four bindings of a queue."""
    queue, exchanges = name(), [name("x") for _ in range(4)]
    client.ask(queue_declare(queue, exclusive=True))
    for exchange in exchanges:
        client.ask(exchange_declare(exchange, auto_delete=True))
        client.ask(queue_bind(queue, exchange, "k"))
    for exchange in exchanges:
        client.publish(exchange.encode(), exchange=exchange, key="k")
    assert drain(client, queue) == [exchange.encode() for exchange in exchanges]


@pytest.mark.parametrize("durable", [False, True])
def test_persistent_and_transient_messages_keep_one_order(client: Client, name: Name, durable: bool) -> None:
    """1.8: "messages of the same priority in order irrespective of their individual persistence"."""
    queue = name()
    client.ask(queue_declare(queue, durable=durable))
    modes = (2, 1, 1, None, 2, 1, 2, 2, None, 1)
    for number, mode in enumerate(modes * 5):
        client.publish(str(number).encode(), key=queue, properties=BasicProperties(delivery_mode=mode))
    assert drain(client, queue) == [str(number).encode() for number in range(len(modes) * 5)]
    client.ask(queue_delete(queue))


def test_half_acknowledged_then_reconnected(connect: Connect, name: Name) -> None:
    """1.8: acknowledge half, disconnect, reconnect: the other half comes again."""
    queue, first, second = name(), connect(), connect()
    first.ask(queue_declare(queue, durable=True))
    deposit(first, *(str(number).encode() for number in range(10)), key=queue)
    first.ask(consume(queue, "t"))
    for number in range(10):
        message = first.expect_message(BasicDeliver)
        if number % 2:
            first.send(ack(message.method.delivery_tag))
    first.close_channel()
    second.ask(consume(queue, "t"))
    messages = [second.expect_message(BasicDeliver) for _ in range(5)]
    assert [message.body for message in messages] == [b"0", b"2", b"4", b"6", b"8"]
    assert all(message.method.redelivered for message in messages)
    second.open_channel(2)
    second.ask(queue_delete(queue), channel=2)


def test_sixteen_consumers_of_a_queue(client: Client, name: Name) -> None:
    """1.8.3.3: at least sixteen consumers of a queue; here on as many channels."""
    queue = name()
    client.ask(queue_declare(queue, exclusive=True))
    for channel in range(2, 34):
        client.open_channel(channel)
        client.ask(consume(queue, f"t{channel}"), channel=channel)
    assert client.ask(queue_declare(queue, passive=True)).consumer_count == 32
    for number in range(32):
        client.publish(str(number).encode(), key=queue)
    received = [client.expect_message(BasicDeliver, channel=channel).body for channel in range(2, 34)]
    assert received == [str(number).encode() for number in range(32)]


def test_each_content_of_a_channel_is_whole(connect: Connect, name: Name) -> None:
    """4.2.6: contents of different channels may interleave, those of one channel may not; the client checks both."""
    client, queues = connect(channels=range(1, 9)), [name() for _ in range(8)]
    for channel, queue in enumerate(queues, 1):
        client.ask(queue_declare(queue, exclusive=True), channel=channel)
        client.ask(consume(queue, "t", no_ack=True), channel=channel)
    bodies = [bytes([number]) * 300_000 for number in range(8)]
    for queue, body in zip(queues, bodies, strict=True):
        client.publish(body, key=queue)
    assert [client.expect_message(BasicDeliver, channel=channel).body for channel in range(1, 9)] == bodies


def test_a_transient_message_in_a_durable_queue(client: Client, name: Name) -> None:
    """1.8: persistence is the message's own; while the server runs it makes no difference."""
    queue = name()
    client.ask(queue_declare(queue, durable=True))
    deposit(client, b"x", key=queue, properties=BasicProperties(delivery_mode=1))
    client.send(get(queue, no_ack=True))
    assert client.expect_message(BasicGetOk).properties.delivery_mode == 1
    client.ask(queue_delete(queue))
