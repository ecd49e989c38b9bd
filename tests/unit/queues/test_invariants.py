"""Each structure of the entities notices when it contradicts itself, and nobody asks unless the setting is on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.entities.scheduling.invariants import BrokenInvariant
from harness.brokers.broker_core import Core, Reader, message

Damage = Callable[[Any], object]


def ready_bytes(queue: Any) -> None:
    queue.ready_messages.bytes += 1


def order_of_the_head(queue: Any) -> None:
    queue.ready_messages._head.reverse()


def a_message_ready_twice(queue: Any) -> None:
    queue.ready_messages._head.append(queue.ready_messages._head[0])


def out_and_ready(queue: Any) -> None:
    queue.ready_messages.peek().consumer = Reader(room=0).consume(queue)


def unacknowledged(queue: Any) -> None:
    queue.unacked += 1


def counted_on_disk(queue: Any) -> None:
    queue.store.state.messages += 1


def bytes_on_disk(queue: Any) -> None:
    queue.store.state.bytes -= 1


def somebody_elses(queue: Any) -> None:
    queue.ready_messages.peek().queue = None


def a_stranger_in_the_rotation(queue: Any) -> None:
    consumer = Reader().consume(queue)
    del queue.consumers.members[consumer]


def waits_and_is_not_in_line(queue: Any) -> None:
    consumer = Reader(room=0).consume(queue)
    queue.deliver()
    consumer.waiting = True


CLASSIC = (
    ready_bytes,
    order_of_the_head,
    a_message_ready_twice,
    out_and_ready,
    unacknowledged,
    counted_on_disk,
    bytes_on_disk,
    somebody_elses,
    a_stranger_in_the_rotation,
    waits_and_is_not_in_line,
)


@pytest.mark.parametrize("damage", CLASSIC, ids=lambda damage: damage.__name__)
def test_a_queue_notices(core: Core, damage: Damage) -> None:
    queue = core.queue()
    core.deposit(queue, b"a", b"bb", b"ccc")
    queue.check()
    damage(queue)
    with pytest.raises(AssertionError):
        queue.check()


def wrong_level(queue: Any) -> None:
    queue.ready_messages.peek().level = 1


def forgotten_level(queue: Any) -> None:
    queue.ready_messages._filled = 0


def another_lane(queue: Any) -> None:
    queue.store.lane(0).state.messages += 1


@pytest.mark.parametrize("damage", [wrong_level, forgotten_level, another_lane], ids=lambda damage: damage.__name__)
def test_a_queue_with_priorities_notices(core: Core, damage: Damage) -> None:
    queue = core.queue(max_priority=5)
    core.deposit(queue, b"a")
    core.deposit(queue, b"b", priority=3)
    queue.check()
    damage(queue)
    with pytest.raises(AssertionError):
        queue.check()


def gap_in_memory(stream: Any) -> None:
    del stream.log._tail[stream.log.tail_first]


def more_messages_than_offsets(stream: Any) -> None:
    stream.store.state.messages += 1


def closed_bytes(stream: Any) -> None:
    stream.log.segments._closed_size += 1


@pytest.mark.parametrize(
    "damage", [gap_in_memory, more_messages_than_offsets, closed_bytes], ids=lambda damage: damage.__name__
)
def test_a_stream_notices(core: Core, damage: Damage) -> None:
    stream = core.queue(queue_type="stream")
    core.deposit(stream, b"a", b"b")
    stream.check()
    damage(stream)
    with pytest.raises(AssertionError):
        stream.check()


def test_a_quorum_queue_checks_its_dead_letters(core: Core) -> None:
    queue: Any = core.queue(queue_type="quorum")
    queue.check()
    queue.dead_letters._store.state.messages = 1
    with pytest.raises(AssertionError, match="the store counts 1 messages, there are 0"):
        queue.check()


def no_heap(delays: Any) -> None:
    delays._index.reverse()


def delayed_bytes(delays: Any) -> None:
    delays._held_bytes += 1


@pytest.mark.parametrize("damage", [no_heap, delayed_bytes], ids=lambda damage: damage.__name__)
def test_a_queue_of_delayed_messages_notices(core: Core, damage: Damage) -> None:
    exchange = core.exchange("x", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    delays = exchange.delays
    assert delays is not None
    for delay in (1000, 2000, 3000):
        delays.publish(message(b"later", exchange="x", headers={"x-delay": delay}))
    delays.check()
    damage(delays)
    with pytest.raises(AssertionError):
        delays.check()


@pytest.mark.parametrize("type_", ["direct", "fanout", "topic", "headers", "x-modulus-hash", "x-random"])
def test_an_exchange_notices_what_its_type_has_forgotten(core: Core, type_: str) -> None:
    exchange, queue = core.exchange("x", type_), core.queue()
    core.bind(exchange, queue, "a.b")
    core.bind(exchange, queue, "c")
    exchange.check()
    exchange.router.unbind(next(iter(exchange.bindings)))
    with pytest.raises(AssertionError, match="1 bindings are matched, the exchange has 2"):
        exchange.check()


def test_a_topic_exchange_notices_a_dead_branch(core: Core) -> None:
    exchange: Any = core.exchange("x", "topic")
    core.bind(exchange, core.queue(), "a.b")
    exchange.router._trie._children["a"]._children["b"].values.clear()
    with pytest.raises(AssertionError, match="nothing is left on the branch 'b'"):
        exchange.check()


def test_bindings_notice_one_that_its_exchange_does_not_know(core: Core) -> None:
    exchange, queue = core.exchange("x", "fanout"), core.queue()
    core.bind(exchange, queue)
    core.vhost.bindings.check()
    exchange.unbind(next(iter(exchange.bindings)))
    with pytest.raises(AssertionError, match="'x' does not know its binding"):
        core.vhost.bindings.check()


def test_what_a_turn_has_touched_is_checked_at_its_end(core: Core) -> None:
    queue = core.queue()
    core.deposit(queue, b"a")
    queue.unacked += 1
    core.end_turn()  # it was not touched
    queue.touch()
    with pytest.raises(BrokenInvariant, match="0 messages are out, 1 are counted"):
        core.end_turn()


def test_nothing_is_checked_unless_it_is_wanted(tmp_path: Path) -> None:
    core = Core(tmp_path / "messages", check_invariants=False)
    assert core.broker.invariants is None
    queue = core.queue()
    queue.unacked += 1
    core.deposit(queue, b"a")
    core.close()
