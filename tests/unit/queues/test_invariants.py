"""Each structure notices when it contradicts itself, and nobody asks unless the setting is on.

One wrong count of each, because they are checked in all other tests: that shows what they take for sound.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from broker.entities.queues.queue import Queue
from broker.entities.scheduling.invariants import BrokenInvariant
from harness.brokers.broker_core import Core, message
from harness.clients.session_client import SessionLayer
from harness.clients.shorthand import consume


def filled(core: Core, **arguments: Any) -> Queue:
    queue = core.queue(**arguments)
    core.deposit(queue, b"a", b"bb", b"ccc")
    return queue


def delays(core: Core) -> Queue:
    exchange = core.exchange("x", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    assert exchange.delays is not None
    exchange.delays.publish(message(b"later", exchange="x", headers={"x-delay": 1000}))
    return exchange.delays


def channel(core: Core) -> Any:
    """One that has published three messages, in confirm mode, and holds them."""
    core.queue()
    client = SessionLayer(core).connect()
    client.ask(consume("q", "tag"))
    client.confirm()
    for persistent in (True, False, True):
        client.publish(b"x", key="q", persistent=persistent)
    return client.connection.channels[1]


COUNTERS: dict[str, tuple[Callable[[Core], Any], str]] = {
    "ready bytes": (filled, "ready_messages.bytes"),
    "unacknowledged": (filled, "out.messages"),
    "unacknowledged bytes": (filled, "out.bytes"),
    "messages on disk": (filled, "store.state.messages"),
    "offsets of a stream": (lambda core: filled(core, queue_type="stream"), "store.state.messages"),
    "dead letters on disk": (lambda core: filled(core, queue_type="quorum"), "dead_letters._store.state.messages"),
    "delayed bytes": (delays, "_waiting._in_memory_bytes"),
    "deliveries to consumers": (channel, "deliveries.consumed"),
    "confirms": (channel, "confirms._answered"),
    "held bytes": (lambda core: channel(core).connection, "held_bytes"),
}
"""Structures, and the places of their counters."""


@pytest.mark.parametrize("counter", COUNTERS)
def test_a_wrong_count_is_noticed(core: Core, counter: str) -> None:
    make, path = COUNTERS[counter]
    structure = make(core)
    structure.check()
    *owner, name = path.rsplit(".", 1)
    counting = attrgetter(*owner)(structure) if owner else structure
    setattr(counting, name, getattr(counting, name) + 1)
    with pytest.raises(AssertionError):
        structure.check()


def test_what_a_turn_has_touched_is_checked_at_its_end_if_it_is_wanted(core: Core, tmp_path: Path) -> None:
    queue = filled(core)
    queue.out.messages += 1
    core.end_turn()  # it was not touched
    queue.touch()
    with pytest.raises(BrokenInvariant, match="0 messages are unacknowledged, 1 are counted"):
        core.end_turn()
    careless = Core(tmp_path / "careless", check_invariants=False)
    assert careless.broker.invariants is None
    queue = careless.queue()
    queue.out.messages += 1
    careless.deposit(queue, b"a")
    careless.close()
