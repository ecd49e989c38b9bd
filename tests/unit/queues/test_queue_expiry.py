"""x-expires seen from the protocol: who uses a queue renews its lease."""

from __future__ import annotations

from broker.wire.methods import BasicCancel
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import consume, queue_declare


def test_the_expiry_begins_when_the_last_consumer_goes(sessions: SessionLayer) -> None:
    """However long the queue had been consumed from before (RabbitMQ documentation, Queue TTL)."""
    client = sessions.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    client.ask(consume("q", "t"))
    sessions.core.advance(900)
    client.ask(BasicCancel("t", False))
    sessions.core.advance(999)
    assert "q" in sessions.core.vhost.queues
    sessions.core.advance(1)
    assert "q" not in sessions.core.vhost.queues


def test_the_expiry_begins_when_the_consumers_connection_is_lost(sessions: SessionLayer) -> None:
    client = sessions.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    client.ask(consume("q", "t"))
    sessions.core.advance(900)
    client.drop()
    sessions.core.advance(999)
    assert "q" in sessions.core.vhost.queues
    sessions.core.advance(1)
    assert "q" not in sessions.core.vhost.queues


def test_a_consumer_keeps_the_queue(sessions: SessionLayer) -> None:
    client = sessions.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    client.ask(consume("q", "t"))
    for _ in range(5):
        sessions.core.advance(999)
    assert "q" in sessions.core.vhost.queues


def test_asking_for_the_queue_renews_the_expiry(sessions: SessionLayer) -> None:
    """A passive declaration counts as use (3.10.8 on the wire)."""
    client = sessions.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    sessions.core.advance(900)
    client.ask(queue_declare("q", passive=True))
    sessions.core.advance(900)
    assert "q" in sessions.core.vhost.queues
