"""Contents leave memory while a client thinks, and come back when somebody needs them."""

from __future__ import annotations

import pytest

from broker.session.channel.deliveries import CHUNK_MESSAGES
from broker.wire.methods import BasicGetEmpty, TxCommit, TxSelect
from broker.wire.properties import decode_properties
from harness.clients.amqp_peer import Message, publish_frames
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import ack, consume, get, nack, prefetch, queue_declare

MANY = 4 * CHUNK_MESSAGES


def bodies(client: SessionClient, *, channel: int = 1) -> list[bytes]:
    return [item.body for item in client.received(channel=channel) if isinstance(item, Message)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.fixture
def holder(sessions: SessionLayer) -> SessionClient:
    """Somebody who holds many messages of the durable queue `q`, dead letters to `dl`, without acknowledging any."""
    holder = sessions.connect(channels=2)
    holder.ask(queue_declare("dl", durable=True))
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dl"}
    holder.ask(queue_declare("q", durable=True, arguments=arguments))
    holder.say(b"".join(publish_frames(body, key="q", persistent=True) for body in numbers(MANY)))
    sessions.core.commit()
    holder.send(consume("q", "t"))
    while len(holder.connection.channels[1].deliveries.unacked) < MANY:
        sessions.core.end_turn()
    assert bodies(holder) == numbers(MANY)
    return holder


def contents_in_memory(holder: SessionClient) -> int:
    return sum(entry.message is not None for entry in holder.connection.channels[1].deliveries.unacked.values())


def test_few_of_many_unacknowledged_contents_stay(holder: SessionClient) -> None:
    assert contents_in_memory(holder) <= 2 * CHUNK_MESSAGES


def test_what_is_given_back_is_read_back(sessions: SessionLayer, holder: SessionClient) -> None:
    """All at once, by losing the connection; order, contents and the redelivered flag are what they were."""
    holder.drop()
    other = sessions.connect()
    other.send(consume("q", "t"))
    while len(other.connection.channels[1].deliveries.unacked) < MANY:
        sessions.core.end_turn()
    messages = [item for item in other.received() if isinstance(item, Message)]
    assert [message.body for message in messages] == numbers(MANY)
    assert all(message.method.redelivered for message in messages)
    assert contents_in_memory(other) <= 2 * CHUNK_MESSAGES


def test_one_in_the_middle_is_read_back(sessions: SessionLayer, holder: SessionClient) -> None:
    holder.send(nack(10))
    (again,) = (item for item in holder.received() if isinstance(item, Message))
    assert (again.body, again.method.delivery_tag, again.method.redelivered) == (b"9", MANY + 1, True)


def test_a_dead_letter_is_read_back_with_its_properties(sessions: SessionLayer, holder: SessionClient) -> None:
    holder.send(nack(3, requeue=False))
    sessions.core.commit()
    letter = holder.ask(get("dl"), channel=2)
    assert letter.body == b"2"
    properties = decode_properties(letter.header)
    assert properties.delivery_mode == 2
    assert properties.headers is not None
    assert "x-death" in properties.headers


def test_acknowledging_needs_no_content(sessions: SessionLayer, holder: SessionClient) -> None:
    before = contents_in_memory(holder)
    holder.send(ack(CHUNK_MESSAGES))
    assert contents_in_memory(holder) <= before
    holder.send(ack(MANY, multiple=True))
    sessions.core.restart()
    assert len(sessions.core.queue_named("q").ready_messages) == 0


def test_what_is_out_survives_a_crash_of_the_broker(sessions: SessionLayer, holder: SessionClient) -> None:
    holder.send(ack(5))
    sessions.core.commit()
    sessions.core.crash()
    assert len(sessions.core.queue_named("q").ready_messages) == MANY - 1


def test_transient_contents_stay_in_memory(sessions: SessionLayer) -> None:
    holder = sessions.connect(channels=2)
    holder.ask(queue_declare("q"))
    holder.send(consume("q", "t"))
    holder.say(b"".join(publish_frames(body, key="q", channel=2) for body in numbers(MANY)))
    sessions.core.commit()
    assert contents_in_memory(holder) == MANY
    holder.drop()
    assert len(sessions.core.queue_named("q").ready_messages) == MANY


def test_a_rolled_back_settlement_still_holds_its_message(sessions: SessionLayer) -> None:
    """A connection that is lost before tx.commit gives everything back, settled or not."""
    holder = sessions.connect(channels=2)
    holder.ask(queue_declare("q"))
    holder.publish(b"x", key="q", channel=2)
    holder.ask(TxSelect())
    assert holder.ask(get("q")).body == b"x"
    holder.send(ack(1))
    queue = sessions.core.queue_named("q")
    assert (queue.unacked, len(queue.ready_messages)) == (1, 0)
    holder.drop()
    assert (queue.unacked, len(queue.ready_messages)) == (0, 1)


def test_a_committed_settlement_is_final(sessions: SessionLayer) -> None:
    holder = sessions.connect(channels=2)
    holder.ask(queue_declare("q"))
    holder.publish(b"x", key="q", channel=2)
    holder.ask(TxSelect())
    holder.ask(get("q"))
    holder.send(ack(1))
    holder.send(TxCommit())
    sessions.core.commit()
    holder.drop()
    assert isinstance(sessions.connect().ask(get("q")), BasicGetEmpty)


# Prefetch over a channel


def test_a_limit_for_the_whole_channel_is_shared(sessions: SessionLayer) -> None:
    """basic.qos with `global` in RabbitMQ's reading: all consumers of the channel together."""
    client = sessions.connect(channels=2)
    client.ask(prefetch(3, of_channel=True))
    for name in ("a", "b"):
        client.ask(queue_declare(name), channel=2)
        client.send(consume(name, name))
        for number in numbers(3):
            client.publish(name.encode() + number, key=name, channel=2)
    assert bodies(client) == [b"a0", b"a1", b"a2"]
    client.send(ack(2, multiple=True))
    assert bodies(client) == [b"b0", b"b1"]
    client.send(ack(3))
    assert bodies(client) == [b"b2"]


def test_raising_the_limit_delivers_at_once(sessions: SessionLayer) -> None:
    client = sessions.connect(channels=2)
    client.ask(queue_declare("q"))
    client.ask(prefetch(1, of_channel=True))
    client.send(consume("q", "t"))
    for body in numbers(5):
        client.publish(body, key="q", channel=2)
    assert bodies(client) == [b"0"]
    client.send(prefetch(4, of_channel=True))
    assert bodies(client) == [b"1", b"2", b"3"]
    client.send(prefetch(0, of_channel=True))
    assert bodies(client) == [b"4"]


def test_what_was_fetched_does_not_count_against_the_limit(sessions: SessionLayer) -> None:
    """basic.get is outside prefetch (3.10.8 on the wire)."""
    client = sessions.connect(channels=2)
    client.ask(queue_declare("q"))
    client.ask(prefetch(1, of_channel=True))
    for body in numbers(3):
        client.publish(body, key="q", channel=2)
    assert client.ask(get("q")).body == b"0"
    client.send(consume("q", "t"))
    assert bodies(client) == [b"1"]


def test_a_queue_forgets_the_channels_that_have_gone(sessions: SessionLayer) -> None:
    """Even those that left nothing unacknowledged: a queue lives longer than its consumers' connections."""
    owner = sessions.connect()
    owner.ask(queue_declare("q"))
    for fetched in (False, True):
        client = sessions.connect()
        owner.publish(b"x", key="q")
        client.send(get("q") if fetched else consume("q", "t"))
        client.send(ack(1))
        client.drop()
    assert sessions.core.queue_named("q")._holders == {}
