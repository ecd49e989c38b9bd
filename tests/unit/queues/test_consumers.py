"""The order of consumers where a client would not notice: in one turn, within one run, after its end.

Rotation, credit, priorities and single active consumers are asserted on the wire, in
tests/conformance/basic/test_consume.py and tests/conformance/queues/test_single_active.py.
"""

from __future__ import annotations

from broker.entities.queues.queue import RUN_BYTES
from harness.brokers.broker_core import Core, Reader
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import ack, consume, get, queue_declare


def test_one_consumer_does_not_take_all_the_room_at_once(core: Core) -> None:
    """A run ends at its size, and credit is looked at again: a slow client is noticed between two runs."""

    class Narrow(Reader):
        """The output of the channel is full as soon as something is in it."""

        def room(self) -> int:
            return 0 if self.seen else 100

    queue, narrow = core.queue(), Narrow()
    core.deposit(queue, *[bytes(RUN_BYTES // 2)] * 5)
    consumer = narrow.consume(queue, no_ack=True)
    core.end_turn()
    assert len(narrow.seen) == 2
    assert not consumer.waiting


def test_a_line_that_has_emptied_is_forgotten(core: Core) -> None:
    queue, reader = core.queue(), Reader()
    for priority in range(50):
        queue.consumers.remove(reader.consume(queue, str(priority), priority=priority))
    reader.consume(queue, "last")
    core.deposit(queue, b"x")
    assert reader.bodies == [b"x"]
    assert len(queue.consumers) == 1


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
    assert sessions.core.queue_named("q")._outlets == {}
