"""Each structure of the entities notices when it contradicts itself, and nobody asks unless the setting is on."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from broker.entities.scheduling.invariants import BrokenInvariant
from harness.brokers.broker_core import Core, Reader, message

Damage = Callable[[Any], object]


def classic(core: Core) -> Any:
    queue = core.queue()
    core.deposit(queue, b"a", b"bb", b"ccc")
    return queue


def levels(core: Core) -> Any:
    queue = core.queue(max_priority=5)
    core.deposit(queue, b"a")
    core.deposit(queue, b"b", priority=3)
    return queue


def stream(core: Core) -> Any:
    queue = core.queue(queue_type="stream")
    core.deposit(queue, b"a", b"b")
    return queue


def quorum(core: Core) -> Any:
    return core.queue(queue_type="quorum")


def delays(core: Core) -> Any:
    queue = core.exchange("x", "x-delayed-message", arguments={"x-delayed-type": "fanout"}).delays
    assert queue is not None
    for delay in (1000, 2000, 3000):
        queue.publish(message(b"later", exchange="x", headers={"x-delay": delay}))
    return queue


def miscounted(path: str, by: int = 1) -> Damage:
    """Count more or less than there is, in the attribute at the end of this path."""
    owner, _, name = path.rpartition(".")

    def damage(structure: Any) -> None:
        counting = attrgetter(owner)(structure) if owner else structure
        setattr(counting, name, getattr(counting, name) + by)

    return damage


def out_and_ready(queue: Any) -> None:
    queue.ready_messages.peek().consumer = Reader(room=0).consume(queue)


def somebody_elses(queue: Any) -> None:
    queue.ready_messages.peek().queue = None


def a_stranger_in_the_rotation(queue: Any) -> None:
    consumer = Reader().consume(queue)
    del queue.consumers.members[consumer]


def waits_and_is_not_in_line(queue: Any) -> None:
    consumer = Reader(room=0).consume(queue)
    queue.deliver()
    consumer.waiting = True


def wrong_level(queue: Any) -> None:
    queue.ready_messages.peek().level = 1


def forgotten_level(queue: Any) -> None:
    queue.ready_messages._filled = 0


def gap_in_memory(queue: Any) -> None:
    del queue.log._tail[queue.log.tail_first]


DAMAGES: dict[str, tuple[Callable[[Core], Any], Damage]] = {
    "ready bytes": (classic, miscounted("ready_messages.bytes")),
    "order of the head": (classic, lambda queue: queue.ready_messages._head.reverse()),
    "a message ready twice": (classic, lambda queue: queue.ready_messages._head.append(queue.ready_messages._head[0])),
    "out and ready": (classic, out_and_ready),
    "unacknowledged": (classic, miscounted("unacked")),
    "messages on disk": (classic, miscounted("store.state.messages")),
    "bytes on disk": (classic, miscounted("store.state.bytes")),
    "somebody else's": (classic, somebody_elses),
    "a stranger in the rotation": (classic, a_stranger_in_the_rotation),
    "waits and is not in line": (classic, waits_and_is_not_in_line),
    "wrong level": (levels, wrong_level),
    "forgotten level": (levels, forgotten_level),
    "another lane": (levels, lambda queue: miscounted("state.messages")(queue.store.lane(0))),
    "gap in memory": (stream, gap_in_memory),
    "more messages than offsets": (stream, miscounted("store.state.messages")),
    "bytes of closed segments": (stream, miscounted("log.segments._closed_size")),
    "dead letters on disk": (quorum, miscounted("dead_letters._store.state.messages")),
    "no heap of delays": (delays, lambda queue: queue._index.reverse()),
    "delayed bytes": (delays, miscounted("_held_bytes")),
}


@pytest.mark.parametrize(("make", "damage"), DAMAGES.values(), ids=list(DAMAGES))
def test_a_queue_notices(core: Core, make: Callable[[Core], Any], damage: Damage) -> None:
    queue = make(core)
    queue.check()
    damage(queue)
    with pytest.raises(AssertionError):
        queue.check()


@pytest.mark.parametrize("type_", ["direct", "fanout", "topic", "headers", "x-modulus-hash", "x-random"])
def test_an_exchange_notices_what_its_type_has_forgotten(core: Core, type_: str) -> None:
    """And the virtual host, what the exchange has."""
    exchange, queue = core.exchange("x", type_), core.queue()
    core.bind(exchange, queue, "a.b")
    core.bind(exchange, queue, "c")
    exchange.check()
    exchange.router.unbind(next(iter(exchange.bindings)))
    with pytest.raises(AssertionError, match="1 bindings are matched, the exchange has 2"):
        exchange.check()
    core.vhost.bindings.check()
    del exchange.bindings[next(iter(exchange.bindings))]
    with pytest.raises(AssertionError, match="'x' does not know its binding"):
        core.vhost.bindings.check()


def test_a_topic_exchange_notices_a_dead_branch(core: Core) -> None:
    exchange: Any = core.exchange("x", "topic")
    core.bind(exchange, core.queue(), "a.b")
    exchange.router._trie._children["a"]._children["b"].values.clear()
    with pytest.raises(AssertionError, match="nothing is left on the branch 'b'"):
        exchange.check()


def test_what_a_turn_has_touched_is_checked_at_its_end_if_it_is_wanted(core: Core, tmp_path: Path) -> None:
    queue = classic(core)
    queue.unacked += 1
    core.end_turn()  # it was not touched
    queue.touch()
    with pytest.raises(BrokenInvariant, match="0 messages are out, 1 are counted"):
        core.end_turn()
    careless = Core(tmp_path / "careless", check_invariants=False)
    assert careless.broker.invariants is None
    queue = careless.queue()
    queue.unacked += 1
    careless.deposit(queue, b"a")
    careless.close()
