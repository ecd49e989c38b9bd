"""x-expires seen from the protocol: who uses a queue renews its lease."""

from __future__ import annotations

from broker.wire.methods import BasicCancel
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import consume, queue_declare


def test_the_expiry_begins_when_the_last_consumer_goes(session_layer: SessionLayer) -> None:
    """However long the queue had been consumed from before (RabbitMQ documentation, Queue TTL)."""
    client = session_layer.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    client.ask(consume("q", "t"))
    session_layer.core.advance(900)
    client.ask(BasicCancel("t", False))
    session_layer.core.advance(999)
    assert "q" in session_layer.core.vhost.queues
    session_layer.core.advance(1)
    assert "q" not in session_layer.core.vhost.queues


def test_the_expiry_begins_when_the_consumers_connection_is_lost(session_layer: SessionLayer) -> None:
    client = session_layer.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    client.ask(consume("q", "t"))
    session_layer.core.advance(900)
    client.drop()
    session_layer.core.advance(999)
    assert "q" in session_layer.core.vhost.queues
    session_layer.core.advance(1)
    assert "q" not in session_layer.core.vhost.queues


def test_a_consumer_keeps_the_queue(session_layer: SessionLayer) -> None:
    client = session_layer.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    client.ask(consume("q", "t"))
    for _ in range(5):
        session_layer.core.advance(999)
    assert "q" in session_layer.core.vhost.queues


def test_asking_for_the_queue_renews_the_expiry(session_layer: SessionLayer) -> None:
    """A passive declaration counts as use (3.10.8 on the wire)."""
    client = session_layer.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000}))
    session_layer.core.advance(900)
    client.ask(queue_declare("q", passive=True))
    session_layer.core.advance(900)
    assert "q" in session_layer.core.vhost.queues
