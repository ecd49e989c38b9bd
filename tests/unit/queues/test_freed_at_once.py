"""A queue or an exchange that is gone is freed at once: no cycle holds it until somebody looks for cycles.

A virtual host is freed when somebody does.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.entities.queues.events.event_recording import Recorder
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import VHost
from harness.brokers.broker_core import Core, Reader
from harness.clients.session_client import SessionLayer


@pytest.fixture(autouse=True)
def nobody_looks_for_cycles() -> Iterator[None]:
    """Garbage in cycles stays, but for that of earlier tests."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "limits": {"max_length": 3, "dead_letter_exchange": "amq.fanout"},
    "time": {"message_ttl": 1000},
    "expiry": {"expires": 1000},
    "priorities": {"max_priority": 5},
    "single active": {"single_active_consumer": True},
    "quorum": {"queue_type": "quorum", "delivery_limit": 2},
    "stream": {"queue_type": "stream"},
}


def deleted_queues() -> list[Queue]:
    """Those that are not freed. A compiled queue has no weak references."""
    return [thing for thing in gc.get_objects() if isinstance(thing, Queue) and thing.deleted]


def use_and_delete(core: Core, *, durable: bool = True, **arguments: Any) -> None:
    """A queue that was bound, filled, and deleted; its expiry and times to live are over."""
    queue = core.queue(durable=durable, **arguments)
    core.bind(core.exchange("e", "fanout"), queue, "")
    core.deposit(queue, *[b"x"] * 5)
    core.commit()
    core.vhost.delete_queue(queue)
    core.commit()
    core.advance(2000)
    core.commit()


@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_queue_is_freed(tmp_path: Path, core: Core, kind: str) -> None:
    """It is freed if it was durable, transient, or had its events recorded; or its consumers have gone before."""
    recorder = Recorder(1, hand_over=lambda records, first, events: None, first_pending=lambda: None)
    recording = Core(tmp_path / "recording", recorder=recorder)
    use_and_delete(core, **KINDS[kind])
    use_and_delete(recording, **KINDS[kind])
    if "queue_type" not in KINDS[kind]:
        use_and_delete(core, durable=False, **KINDS[kind])
    queue, reader = core.queue("consumed"), Reader()
    reader.consume(queue)
    core.deposit(queue, b"x")
    core.end_turn()
    reader.ack()
    core.vhost.delete_queue(queue)
    core.commit()
    del queue, reader
    assert [gc.get_referrers(queue) for queue in deleted_queues()] == []
    assert recorder.last_event > 5
    recording.close()


@pytest.mark.parametrize("type_", ["direct", "fanout", "topic", "headers", "x-consistent-hash"])
def test_a_deleted_exchange_frees_what_was_bound(core: Core, type_: str) -> None:
    exchange, queue = core.exchange("e", type_), core.queue()
    core.bind(exchange, queue, "1")
    core.vhost.delete_exchange(exchange)
    core.vhost.delete_queue(queue)
    core.commit()
    del exchange, queue
    assert [gc.get_referrers(queue) for queue in deleted_queues()] == []


def test_nothing_holds_a_broker_for_good(tmp_path: Path) -> None:
    """A compiled class that declared an attribute of its base again held what it had there: it was counted twice."""
    before = [thing for thing in gc.get_objects() if isinstance(thing, VHost)]
    core = Core(tmp_path / "gone")
    client = SessionLayer(core).connect()
    client.publish(b"x", key="nowhere")
    client.drop()
    core.close()
    del core, client
    gc.collect()
    assert [thing for thing in gc.get_objects() if isinstance(thing, VHost) and thing not in before] == []
