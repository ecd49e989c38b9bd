"""Choice of the consumer: single active consumers and their successors, priorities, exclusive consumers.

Everything was recorded from RabbitMQ 3.10.8 on the wire.
"""

from __future__ import annotations

import pytest

from broker.wire.methods import (
    BasicCancel,
    BasicConsumeOk,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    QueueDeleteOk,
    QueuePurge,
)
from harness.brokers.rabbitmq_reference import REFERENCE
from harness.clients.queue_steps import deposit, drain
from harness.clients.shorthand import ack, consume, nack, prefetch, queue_declare, queue_delete
from harness.clients.wire_client import Client
from harness.waiting import eventually
from tests.conformance import Connect, Made


@pytest.fixture
def queue(new_queue: Made) -> str:
    """A queue with a single active consumer."""
    return new_queue(single_active_consumer=True)


@pytest.fixture
def shared(declare: Made) -> str:
    """Such a queue for several connections."""
    return declare(single_active_consumer=True)


def served(client: Client, queue: str, body: bytes) -> str:
    """Publish a message and see which consumer on channel 1 gets it."""
    deposit(client, body, key=queue)
    message = client.expect_message(BasicDeliver)
    assert message.body == body
    return str(message.method.consumer_tag)


def test_only_the_first_is_served_until_it_goes(client: Client, queue: str) -> None:
    """Also while it has no credit. Messages given back afterwards go to its successor."""
    client.ask(prefetch(1))
    for tag in ("a", "b", "c"):
        client.ask(consume(queue, tag))
    assert served(client, queue, b"1") == "a"
    deposit(client, b"2", key=queue)
    client.send(ack(1))
    assert client.expect_message(BasicDeliver).method == BasicDeliver("a", 2, False, "", queue)
    client.ask(BasicCancel("b", False))
    client.send(ack(2))
    assert served(client, queue, b"3") == "a"
    client.ask(BasicCancel("a", False))
    client.send(nack(3))
    assert client.expect_message(BasicDeliver).method == BasicDeliver("c", 4, True, "", queue)


def test_the_successor_has_the_highest_priority_and_of_equals_came_first(client: Client, queue: str) -> None:
    """But no priority unseats the active one."""
    client.ask(consume(queue, "first"))
    for tag, priority in (("low", 0), ("high", 5), ("late", 5)):
        client.ask(consume(queue, tag, arguments={"x-priority": priority}))
    for tag in ("first", "high", "late"):
        assert served(client, queue, b"x") == tag
        client.ask(BasicCancel(tag, False))


@pytest.mark.parametrize("end", ["channel", "error", "connection"])
def test_however_the_active_one_ends_there_is_a_successor(
    client: Client, connect: Connect, shared: str, end: str
) -> None:
    other = connect(channels=(1, 2))
    other.ask(consume(shared, "active"))
    client.ask(consume(shared, "successor"))
    deposit(client, b"x", key=shared)
    assert other.expect_message(BasicDeliver).method.consumer_tag == "active"
    if end == "channel":
        other.close_channel(1)
    elif end == "error":
        other.refusal(ack(99))
    else:
        other.close()
    assert client.expect_message(BasicDeliver).method == BasicDeliver("successor", 1, True, "", shared)


def test_an_exclusive_consumer_is_refused(client: Client, queue: str) -> None:
    """Even the first; and it leaves no trace."""
    refused = f"channel 403 ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    assert client.refusal(consume(queue, "a", exclusive=True)) == refused
    client.ask(consume(queue, "a"))
    assert client.refusal(consume(queue, "b", exclusive=True)) == refused


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_exclusive_consumers_of_other_types_are_not_alone(connect: Connect, declare: Made, kind: str) -> None:
    """The flag means nothing."""
    queue = declare(queue_type=kind)
    for tag, exclusive in (("a", True), ("b", False), ("c", True)):
        other = connect()
        other.ask(prefetch(5))
        other.ask(consume(queue, tag, exclusive=exclusive))


# Without it


def test_a_higher_priority_has_all_until_its_credit_is_used_up(client: Client, new_queue: Made) -> None:
    queue = new_queue()
    client.ask(prefetch(2))
    for tag, priority in (("low", -5), ("high", 10), ("none", None), ("high too", 10)):
        client.ask(consume(queue, tag, arguments={} if priority is None else {"x-priority": priority}))
    tags = [served(client, queue, b"%d" % number) for number in range(8)]
    assert tags == ["high", "high too", "high", "high too", "none", "none", "low", "low"]
    deposit(client, b"8", b"9", key=queue)
    client.send(ack(5))
    assert client.expect_message(BasicDeliver).method.consumer_tag == "none"
    client.send(ack(2))
    assert client.expect_message(BasicDeliver).method.consumer_tag == "high too"


def test_an_exclusive_consumer_keeps_only_consumers_out(client: Client, connect: Connect, declare: Made) -> None:
    """Others may purge, get and delete; then it is told. It ends with the consumer's connection."""
    queue, other = declare(), connect()
    client.ask(prefetch(1))
    client.ask(consume(queue, "alone", exclusive=True))
    deposit(client, b"1", b"2", b"3", key=queue)
    client.expect_message(BasicDeliver)
    other.send(QueuePurge(queue, False))
    assert other.receive().message_count == 2  # type: ignore[union-attr]
    deposit(client, b"4", key=queue)
    assert drain(other, queue) == [b"4"]
    assert other.ask(queue_delete(queue)) == QueueDeleteOk(0)
    assert client.expect(BasicCancel).consumer_tag == "alone"
    queue, other = declare(), connect()
    refused = f"channel 403 ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    client.ask(consume(queue, "watch"))
    assert other.refusal(consume(queue, "alone", exclusive=True)) == refused
    client.ask(BasicCancel("watch", False))
    other.ask(consume(queue, "alone", exclusive=True))
    for exclusive in (False, True):
        assert client.refusal(consume(queue, "t", exclusive=exclusive)) == refused
    other.close()

    def free() -> bool:
        client.send(consume(queue, "t"))
        if isinstance(item := client.receive(), BasicConsumeOk):
            return True
        assert isinstance(item, ChannelClose)
        client.send(ChannelCloseOk(), ChannelOpen())
        client.expect(ChannelOpenOk)
        return False

    eventually(free, "the queue to be free")


@pytest.mark.skipif(bool(REFERENCE), reason="RabbitMQ 3.10.8 loses the order; see docs/protocol.md")
@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("back", ["closed", "acknowledged"])
def test_order_is_kept_when_the_active_one_leaves_gracefully(
    client: Client, connect: Connect, name: Made, kind: str, back: str
) -> None:
    """basic.cancel, then channel.close, as pika does it: what comes meanwhile comes behind what comes back.

    If RabbitMQ 3.10.8 serves the next one between the two, order is lost; a publish ends its queue's process.
    """
    queue, leaving, publisher = name(), connect(), connect()
    client.ask(queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True, "x-queue-type": kind}))
    leaving.ask(prefetch(3))
    leaving.ask(consume(queue, "active"))
    client.send(consume(queue, "successor", no_wait=True))
    deposit(publisher, *(b"%d" % number for number in range(1, 7)), key=queue)
    assert [leaving.expect_message(BasicDeliver).body for _ in range(3)] == [b"1", b"2", b"3"]
    leaving.ask(BasicCancel("active", False))
    deposit(publisher, b"7", key=queue)
    if back == "closed":
        leaving.close_channel(1)
    else:
        leaving.send(ack(1), ack(3))
        client.open_channel(2)
        assert client.ask(queue_declare(queue, passive=True), channel=2).message_count == 4, "2 is out"
        leaving.send(ack(2))
    expected = [b"%d" % number for number in range(1 if back == "closed" else 4, 8)]
    assert [client.expect_message(BasicDeliver).body for _ in expected] == expected
    client.ask(queue_delete(queue), channel=1)
