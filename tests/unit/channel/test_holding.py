"""Order on a channel that has to wait: for a definition on its way to disk, or for memory and disk to be plentiful."""

from __future__ import annotations

import pytest

from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.methods import (
    BasicAck,
    BasicGetOk,
    ChannelClose,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import ack, consume, get, queue_bind, queue_declare, queue_delete


def drained(client: SessionClient, queue: str, channel: int = 1) -> list[bytes]:
    """Take everything out of a queue."""
    taken = []
    while isinstance(item := client.ask(get(queue, no_ack=True), channel=channel), Message):
        taken.append(item.body)
    return taken


# The gate


def test_a_durable_declaration_is_answered_when_it_is_on_disk(sessions: SessionLayer) -> None:
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True))
    assert client.received() == []
    assert "q" not in sessions.core.vhost.queues
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert client.expect_one() == QueueDeclareOk("q", 0, 0)


def test_what_follows_a_declaration_without_answer_finds_the_queue(sessions: SessionLayer) -> None:
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True, no_wait=True))
    client.send(queue_bind("q", "amq.fanout", no_wait=True))
    client.publish(b"by name", key="q")
    client.publish(b"by exchange", exchange="amq.fanout")
    client.send(get("q", no_ack=True))
    assert client.received() == []
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert client.received() == [], "the binding is on its way to disk now"
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert client.expect_one().body == b"by name"
    assert drained(client, "q") == [b"by exchange"]


def test_another_channel_does_not_wait(sessions: SessionLayer) -> None:
    client = sessions.connect(channels=2)
    client.ask(queue_declare("there"))
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True), channel=1)
    client.publish(b"x", key="there", channel=2)
    assert drained(client, "there", channel=2) == [b"x"]


def test_two_declarations_of_one_name_are_one_creation(sessions: SessionLayer) -> None:
    one, two = sessions.connect(), sessions.connect()
    sessions.core.definitions.holding = True
    one.send(queue_declare("q", durable=True))
    two.send(queue_declare("q", durable=True))
    assert sessions.core.definitions.held == 1
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert one.expect_one() == two.expect_one() == QueueDeclareOk("q", 0, 0)


def test_the_second_of_two_different_declarations_is_refused(sessions: SessionLayer) -> None:
    one, two = sessions.connect(), sessions.connect()
    sessions.core.definitions.holding = True
    one.send(queue_declare("q", durable=True))
    two.send(queue_declare("q", durable=True, arguments={"x-max-length": 5}))
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert isinstance(one.expect_one(), QueueDeclareOk)
    refusal = two.expect_one()
    assert isinstance(refusal, ChannelClose)
    assert (refusal.reply_code, refusal.class_id, refusal.method_id) == (406, 50, 10)


def test_a_declaration_that_cannot_be_written_fails_and_can_be_tried_again(sessions: SessionLayer) -> None:
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True))
    sessions.core.definitions.settle(ConnectionException(ReplyCode.RESOURCE_ERROR, "disk full"))
    sessions.core.end_turn()
    close = client.expect_one(channel=0)
    assert (close.reply_code, close.class_id, close.method_id) == (506, 50, 10)
    assert "q" not in sessions.core.vhost.queues
    sessions.core.definitions.holding = False
    assert isinstance(sessions.connect().ask(queue_declare("q", durable=True)), QueueDeclareOk)


def test_a_client_that_goes_while_it_waits_leaves_nothing_held(sessions: SessionLayer) -> None:
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True))
    client.publish(b"x" * 1000, key="q")
    client.drop()
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert len(sessions.core.vhost.queues["q"].ready_messages) == 0, "it was never obeyed"


def test_an_error_of_what_was_held_names_the_right_method(sessions: SessionLayer) -> None:
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True, no_wait=True))
    client.send(queue_bind("q", "nowhere"), get("q"))
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    close = client.expect_one()
    assert (close.reply_code, close.class_id, close.method_id) == (404, 50, 20)


def test_too_much_held_stops_the_reading(sessions: SessionLayer) -> None:
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True, no_wait=True))
    assert client.connection.readable
    for _ in range(10):
        client.publish(b"x" * 600_000, key="q")
    assert not client.connection.readable
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    assert client.connection.readable
    assert len(sessions.core.vhost.queues["q"].ready_messages) == 10


# Alarms


@pytest.fixture
def short_client(sessions: SessionLayer) -> SessionClient:
    """Somebody with a queue `q` and two messages in it, when memory runs short."""
    client = sessions.connect()
    client.ask(queue_declare("q"))
    client.publish(b"1", key="q")
    client.publish(b"2", key="q")
    sessions.core.broker.alarms.set("memory", short=True)
    return client


def plenty(sessions: SessionLayer) -> None:
    sessions.core.broker.alarms.set("memory", short=False)
    sessions.core.end_turn()


def test_who_publishes_is_blocked_and_told_once(sessions: SessionLayer, short_client: SessionClient) -> None:
    assert short_client.received(channel=0) == []
    short_client.publish(b"3", key="q")
    short_client.publish(b"4", key="q")
    assert short_client.expect_one(channel=0) == ConnectionBlocked("low on memory")
    assert len(sessions.core.vhost.queues["q"].ready_messages) == 2
    plenty(sessions)
    assert short_client.expect_one(channel=0) == ConnectionUnblocked()
    assert drained(short_client, "q") == [b"1", b"2", b"3", b"4"]


def test_who_does_not_understand_is_blocked_and_not_told(sessions: SessionLayer) -> None:
    client = sessions.connect(capabilities={})
    client.ask(queue_declare("q"))
    sessions.core.broker.alarms.set("disk", short=True)
    client.publish(b"x", key="q")
    assert client.received(channel=0) == []
    assert len(sessions.core.vhost.queues["q"].ready_messages) == 0
    sessions.core.broker.alarms.set("disk", short=False)
    sessions.core.end_turn()
    assert client.received(channel=0) == []
    assert drained(client, "q") == [b"x"]


def test_consumers_go_on(sessions: SessionLayer, short_client: SessionClient) -> None:
    consumer = sessions.connect()
    consumer.send(consume("q", "t"))
    assert [item.body for item in consumer.received() if isinstance(item, Message)] == [b"1", b"2"]
    consumer.send(ack(2, multiple=True))
    assert sessions.core.vhost.queues["q"].unacked == 0


def test_acknowledgements_pass_the_publishes_that_wait(sessions: SessionLayer, short_client: SessionClient) -> None:
    assert isinstance(short_client.ask(get("q")).method, BasicGetOk)
    short_client.publish(b"3", key="q")
    assert sessions.core.vhost.queues["q"].unacked == 1
    short_client.send(ack(1))
    assert sessions.core.vhost.queues["q"].unacked == 0


def test_what_follows_a_held_publish_waits_for_it(sessions: SessionLayer, short_client: SessionClient) -> None:
    short_client.publish(b"3", key="q")
    short_client.send(queue_delete("q"))
    assert short_client.received() == []
    plenty(sessions)
    assert short_client.expect_one().message_count == 3


def test_confirms_come_when_the_publish_is_made(sessions: SessionLayer, short_client: SessionClient) -> None:
    short_client.confirm()
    short_client.publish(b"3", key="q")
    assert short_client.received() == []
    plenty(sessions)
    assert short_client.expect_one() == BasicAck(1, False)


def test_publishes_keep_their_order_when_an_alarm_meets_a_gate(sessions: SessionLayer) -> None:
    """Held for a declaration first, then for memory: still in the order they were sent."""
    client = sessions.connect()
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True, no_wait=True))
    for body in (b"1", b"2", b"3"):
        client.publish(body, key="q")
    sessions.core.broker.alarms.set("memory", short=True)
    sessions.core.definitions.settle()
    sessions.core.end_turn()
    client.publish(b"4", key="q")
    plenty(sessions)
    assert drained(client, "q") == [b"1", b"2", b"3", b"4"]


def test_publishes_keep_their_order_when_an_alarm_returns(sessions: SessionLayer, short_client: SessionClient) -> None:
    for body in (b"3", b"4"):
        short_client.publish(body, key="q")
    plenty(sessions)
    sessions.core.broker.alarms.set("memory", short=True)
    for body in (b"5", b"6"):
        short_client.publish(body, key="q")
    plenty(sessions)
    assert drained(short_client, "q") == [b"%d" % number for number in range(1, 7)]


def test_an_error_of_a_held_publish_names_basic_publish(sessions: SessionLayer, short_client: SessionClient) -> None:
    short_client.publish(b"x", exchange="nowhere")
    other = sessions.connect()
    other.ask(get("q"))
    short_client.send(get("q"))
    plenty(sessions)
    close = short_client.expect_one()
    assert (close.reply_code, close.class_id, close.method_id) == (404, 60, 40)


def test_held_publishes_stop_the_reading(sessions: SessionLayer, short_client: SessionClient) -> None:
    for _ in range(10):
        short_client.publish(b"x" * 600_000, key="q")
    assert not short_client.connection.readable
    plenty(sessions)
    assert short_client.connection.readable


# Output


def test_replies_that_nobody_reads_stop_the_reading(sessions: SessionLayer) -> None:
    """Returns and basic.get answers are not bounded by credit: only by not reading what asks for more."""
    client = sessions.connect()
    client.reading = False
    for _ in range(100):
        client.publish(b"x" * 100_000, key="nowhere", mandatory=True)
    assert not client.connection.readable


@pytest.mark.slow
def test_confirms_that_nobody_reads_do_not_stop_the_reading(sessions: SessionLayer) -> None:
    """A client may publish all it has and then read: its confirms stay a few numbers here."""
    client = sessions.connect()
    client.ask(queue_declare("q"))
    client.confirm()
    client.reading = False
    for _ in range(100):
        client.say(publish_frames(b"", key="q") * 1000)
    assert client.connection.readable
    client.reading = True
    client.connection.output.touch()
    sessions.core.end_turn()
    assert client.expect_one() == BasicAck(100_000, True)


def test_a_consumer_without_acknowledgements_gets_everything(sessions: SessionLayer) -> None:
    """More than the output holds, from one turn: whoever waits for room is served when the output has been taken."""
    client, publisher = sessions.connect(), sessions.connect()
    client.ask(queue_declare("q"))
    publisher.say(publish_frames(b"x" * 100_000, key="q") * 60)
    client.send(consume("q", "t", no_ack=True))
    sessions.core.end_turn()
    assert len([item for item in client.received() if isinstance(item, Message)]) == 60
