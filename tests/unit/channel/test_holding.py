"""Order on a channel that has to wait: for a definition on its way to disk, or for memory and disk to be plentiful."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from broker.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsumeOk,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclareOk,
)
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import consume, get, queue_bind, queue_declare, queue_delete


@pytest.fixture
def client(sessions: SessionLayer) -> SessionClient:
    return sessions.connect(channels=2)


def ready(sessions: SessionLayer) -> int:
    """The messages in the queue q."""
    return len(sessions.core.vhost.queues["q"].ready_messages)


# The gate


@pytest.fixture
def held(sessions: SessionLayer, client: SessionClient) -> SessionClient:
    """A client that has declared the durable queue `q` without waiting; the declaration is on its way to disk."""
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True, no_wait=True))
    return client


def settle(sessions: SessionLayer, error: Exception | None = None) -> None:
    """Writes on their way to disk get there, or fail."""
    sessions.core.definitions.settle(error)
    sessions.core.end_turn()


def test_a_durable_declaration_is_answered_when_it_is_on_disk(sessions: SessionLayer, client: SessionClient) -> None:
    """Another channel does not wait."""
    client.ask(queue_declare("there"))
    sessions.core.definitions.holding = True
    client.send(queue_declare("q", durable=True))
    client.publish(b"x", key="there", channel=2)
    assert client.drain("there", channel=2) == [b"x"]
    assert client.received() == []
    assert "q" not in sessions.core.vhost.queues
    settle(sessions)
    assert client.expect_one() == QueueDeclareOk("q", 0, 0)


def test_what_follows_a_declaration_without_answer_finds_the_queue(sessions: SessionLayer, held: SessionClient) -> None:
    """An error of a method that was held names the right method."""
    held.send(queue_bind("q", "amq.fanout", no_wait=True))
    held.publish(b"by name", key="q")
    held.publish(b"by exchange", exchange="amq.fanout")
    held.send(get("q", no_ack=True))
    assert held.received() == []
    settle(sessions)
    assert held.received() == [], "the binding is on its way to disk now"
    held.send(get("q", no_ack=True), queue_bind("q", "nowhere"), get("q"))
    settle(sessions)
    first, second, close = held.received()
    assert (first.body, second.body) == (b"by name", b"by exchange")
    assert (close.reply_code, close.class_id, close.method_id) == (404, 50, 20)


def test_a_declaration_that_cannot_be_written_fails_and_can_be_tried_again(
    sessions: SessionLayer, held: SessionClient
) -> None:
    settle(sessions, ConnectionException(ReplyCode.RESOURCE_ERROR, "disk full"))
    close = held.expect_one(channel=0)
    assert (close.reply_code, close.class_id, close.method_id) == (506, 50, 10)
    assert "q" not in sessions.core.vhost.queues
    sessions.core.definitions.holding = False
    assert isinstance(sessions.connect().ask(queue_declare("q", durable=True)), QueueDeclareOk)


def test_a_client_that_goes_while_it_waits_leaves_nothing_held(sessions: SessionLayer, held: SessionClient) -> None:
    held.publish(b"x" * 1000, key="q")
    held.drop()
    settle(sessions)
    assert ready(sessions) == 0, "it was never obeyed"


def test_very_much_that_was_held_goes_on_some_at_a_time(sessions: SessionLayer, held: SessionClient) -> None:
    """In order, and what comes meanwhile is behind it; the client is not read from, and another is served between."""
    tags = [str(number) for number in range(5 * PORTION_BYTES // MESSAGE_BYTES)]
    held.send(*(consume("q", tag) for tag in tags))
    settle(sessions)
    other, begun = sessions.connect(), held.received()
    assert 0 < len(begun) < len(tags)
    assert not held.connection.readable
    held.send(*(BasicCancel(tag, False) for tag in tags))
    assert isinstance(other.ask(queue_declare("q", passive=True)), QueueDeclareOk)
    while not held.connection.readable:
        sessions.core.advance(1)
    answers = [*begun, *held.received()]
    assert answers == [*map(BasicConsumeOk, tags), *map(BasicCancelOk, tags)]


# Alarms. What consumers may do meanwhile is asserted on the wire (tests/durability/faults/test_promises.py)


@pytest.fixture
def short(sessions: SessionLayer, client: SessionClient) -> SessionClient:
    """Somebody with a queue `q` and two messages in it, when memory runs short."""
    client.ask(queue_declare("q"))
    client.publish(b"1", key="q")
    client.publish(b"2", key="q")
    sessions.core.broker.alarms.set("memory", short=True)
    return client


def plenty(sessions: SessionLayer) -> None:
    sessions.core.broker.alarms.set("memory", short=False)
    sessions.core.end_turn()


def test_who_publishes_is_blocked_and_told_once(sessions: SessionLayer, short: SessionClient) -> None:
    """Each time; and the order of what was published stays."""
    assert short.received(channel=0) == []
    for bodies in ((b"3", b"4"), (b"5", b"6")):
        before = ready(sessions)
        for body in bodies:
            short.publish(body, key="q")
        assert short.expect_one(channel=0) == ConnectionBlocked("low on memory")
        assert ready(sessions) == before
        plenty(sessions)
        assert short.expect_one(channel=0) == ConnectionUnblocked()
        sessions.core.broker.alarms.set("memory", short=True)
    assert short.drain("q") == [b"1", b"2", b"3", b"4", b"5", b"6"]


def test_what_follows_a_held_publish_waits_for_it(sessions: SessionLayer, short: SessionClient) -> None:
    """Its confirm too, which says that it was made."""
    short.confirm()
    short.publish(b"3", key="q")
    short.send(queue_delete("q"))
    assert short.received() == []
    plenty(sessions)
    deleted, confirm = short.received()
    assert (confirm, deleted.message_count) == (BasicAck(1, False), 3)


def test_an_error_of_a_held_publish_names_basic_publish(sessions: SessionLayer, short: SessionClient) -> None:
    short.publish(b"x", exchange="nowhere")
    sessions.connect().ask(get("q"))
    short.send(get("q"))
    plenty(sessions)
    close = short.expect_one()
    assert (close.reply_code, close.class_id, close.method_id) == (404, 60, 40)


def test_publishes_keep_their_order_when_an_alarm_meets_a_gate(sessions: SessionLayer, held: SessionClient) -> None:
    """Held for a declaration first, then for memory: still in the order they were sent."""
    for body in (b"1", b"2", b"3"):
        held.publish(body, key="q")
    sessions.core.broker.alarms.set("memory", short=True)
    settle(sessions)
    held.publish(b"4", key="q")
    plenty(sessions)
    assert held.drain("q") == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(("why", "release"), [("held", settle), ("short", plenty)])
def test_too_much_held_stops_the_reading(
    sessions: SessionLayer, request: pytest.FixtureRequest, why: str, release: Callable[[SessionLayer], None]
) -> None:
    client: SessionClient = request.getfixturevalue(why)
    assert client.connection.readable
    for _ in range(10):
        client.publish(b"x" * 600_000, key="q")
    assert not client.connection.readable
    release(sessions)
    assert client.connection.readable
    assert ready(sessions) == 10 + 2 * (why == "short")
