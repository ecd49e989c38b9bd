"""Time to live and expiry of queues, with a clock that only the test moves.

The meaning of limits is held against a list in tests/models/test_limits_model.py; here are the moments between two
turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.wire.methods import BasicCancel
from harness.brokers.broker_core import Core, Reader, message
from harness.clients.session_client import SessionClient, SessionLayer
from harness.clients.shorthand import consume, get, queue_declare

# Time to live


@pytest.mark.parametrize("arguments", [{}, {"queue_type": "quorum"}, {"max_length": 3}, {"max_priority": 3}], ids=str)
def test_a_waiting_consumer_gets_it_however_long_the_turn_takes(core: Core, arguments: dict[str, Any]) -> None:
    """x-message-ttl 0: delivered at once or never. A requeued message is not delivered at once.

    RabbitMQ hands a message to a consumer that waits before it looks at the time.
    """
    queue = core.queue(message_ttl=0, **arguments)
    core.deposit(queue, b"nobody")
    assert len(queue.ready_messages) == 0
    reader = Reader()
    reader.consume(queue, prefetch=2)
    core.end_turn()
    for number in range(3):
        queue.publish(message(b"%d" % number))
        core.clock.time += 1
    core.end_turn()
    assert reader.bodies == [b"0", b"1"]
    assert len(queue.ready_messages) == 0
    reader.requeue()
    queue.publish(message(b"new"))
    core.end_turn()
    assert reader.bodies == [b"0", b"1", b"new"], "what found no consumer is gone, and what came back"
    assert len(queue.ready_messages) == 0


def test_timers_do_not_grow_with_the_messages_that_pass(core: Core) -> None:
    """With a time to live of a day, a timer for each message at the head would fill the memory by the evening."""
    queue = core.queue(message_ttl=86_400_000)
    reader = Reader()
    reader.consume(queue, prefetch=1)
    before = len(core.broker.timers._due)
    for number in range(200):
        queue.publish(message(b"%d" % number))
        core.clock.time += 1
        if number > 2:
            reader.ack()
        core.end_turn()
    assert len(core.broker.timers._due) - before <= 2


# Expiry


Use = Callable[[SessionLayer, SessionClient], object]


def declare_again(sessions: SessionLayer, client: SessionClient) -> None:
    """With the same arguments."""
    client.ask(queue_declare("q", arguments=sessions.core.queue_named("q").spec.arguments, durable=True))


def consume_until(end: Use) -> Use:
    """Consume for longer than the expiry, and end that."""

    def use(sessions: SessionLayer, client: SessionClient) -> None:
        client.ask(consume("q", "t"))
        sessions.core.advance(5000)
        end(sessions, client)

    return use


USES: dict[str, tuple[Use, int]] = {
    "nothing": (lambda sessions, client: None, 100),
    "publish": (lambda sessions, client: client.publish(b"a", key="q"), 100),
    "declare": (declare_again, 1000),
    "declare passively": (lambda sessions, client: client.ask(queue_declare("q", passive=True)), 1000),
    "get": (lambda sessions, client: client.ask(get("q")), 1000),
    "cancel": (consume_until(lambda sessions, client: client.ask(BasicCancel("t", False))), 1000),
    "lose the connection": (consume_until(lambda sessions, client: client.drop()), 1000),
    "restart": (lambda sessions, client: sessions.core.restart(), 1000),
}
"""Uses of a queue 900 ms into an expiry of a second, and the milliseconds that are left of it then."""


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize(("use", "left"), USES.values(), ids=list(USES))
def test_uses_that_begin_the_expiry_again(sessions: SessionLayer, use: Use, left: int, kind: str) -> None:
    """RabbitMQ documentation, Queue TTL; a passive declaration counts as use (3.10.8 on the wire)."""
    client = sessions.connect()
    client.ask(queue_declare("q", arguments={"x-expires": 1000, "x-queue-type": kind}, durable=True))
    sessions.core.advance(900)
    use(sessions, client)
    sessions.core.advance(left - 1)
    assert "q" in sessions.core.vhost.queues
    sessions.core.advance(1)
    assert "q" not in sessions.core.vhost.queues
