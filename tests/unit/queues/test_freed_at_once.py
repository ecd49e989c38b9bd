"""A queue or an exchange that is gone is freed at once: no cycle holds it until somebody looks for cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

from broker.entities.queues.event_recording import Recorder
from broker.entities.queues.queue import Queue
from harness.brokers.broker_core import Core, Reader


@pytest.fixture(autouse=True)
def nobody_looks_for_cycles() -> Iterator[None]:
    """Garbage in cycles stays."""
    gc.disable()
    yield
    gc.enable()


KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "limits": {"max_length": 3, "dead_letter_exchange": "amq.fanout"},
    "time": {"message_ttl": 1000},
    "lease": {"expires": 1000},
    "priorities": {"max_priority": 5},
    "single active": {"single_active_consumer": True},
    "quorum": {"queue_type": "quorum", "delivery_limit": 2},
    "stream": {"queue_type": "stream"},
}


DURABLE = [(kind, True) for kind in KINDS]
TRANSIENT = [(kind, False) for kind, arguments in KINDS.items() if "queue_type" not in arguments]


@pytest.mark.parametrize(("kind", "durable"), DURABLE + TRANSIENT)
def test_a_deleted_queue_is_freed(core: Core, kind: str, durable: bool) -> None:
    name = _declared_used_and_deleted(core, durable=durable, **KINDS[kind])
    core.commit()
    core.advance(2000)  # leases and times to live
    core.commit()
    assert name() is None, gc.get_referrers(name())


@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_queue_whose_events_were_recorded_is_freed(tmp_path: Path, kind: str) -> None:
    recorder = Recorder(1, hand_over=lambda records, first, events: None, first_pending=lambda: None)
    core = Core(tmp_path, recorder=recorder)
    name = _declared_used_and_deleted(core, durable=True, **KINDS[kind])
    core.commit()
    core.advance(2000)
    core.commit()
    assert name() is None, gc.get_referrers(name())
    assert recorder.last_event > 5
    core.close()


def test_a_queue_whose_consumers_have_gone_before_is_freed(core: Core) -> None:
    queue = core.queue()
    reader = Reader()
    reader.consume(queue)
    core.deposit(queue, b"x")
    core.end_turn()
    reader.ack()
    known = ref(queue)
    core.vhost.delete_queue(queue)
    core.commit()
    del queue, reader
    assert known() is None, gc.get_referrers(known())


@pytest.mark.parametrize("type_", ["direct", "fanout", "topic", "headers", "x-consistent-hash"])
def test_a_deleted_exchange_frees_what_was_bound(core: Core, type_: str) -> None:
    exchange, queue = core.exchange("e", type_), core.queue()
    core.bind(exchange, queue, "1")
    known = ref(queue)
    core.vhost.delete_exchange(exchange)
    core.vhost.delete_queue(queue)
    core.commit()
    del exchange, queue
    assert known() is None, gc.get_referrers(known())


def _declared_used_and_deleted(core: Core, *, durable: bool, **arguments: Any) -> ref[Queue]:
    queue = core.queue(durable=durable, **arguments)
    core.bind(core.exchange("e", "fanout"), queue, "")
    for _ in range(5):
        core.deposit(queue, b"x")
    core.commit()
    core.vhost.delete_queue(queue)
    return ref(queue)
