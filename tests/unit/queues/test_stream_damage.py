"""Streams and queues whose records are damaged: what can be read is read, offsets stay, and new ones are new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_core import Core, Reader, flip
from harness.clients.stream_steps import Follower, stream
from storage.messages import lmdb_environment
from storage.messages.keys import CLOSED_SEGMENT, LANE, SEGMENT, SETTLED
from storage.offline.verify_messages import verify

ROUNDS = 10
EACH = 20


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Callable[[bytes, int, int], Core]]:
    """A function that fills a stream, damages a byte of the record of a kind with this number, and starts again."""
    path, made = tmp_path / "messages", list[Core]()

    def damage(kind: bytes, number: int, at: int) -> Core:
        core = Core(path)
        log = stream(core, stream_max_segment_size_bytes=1000, max_length_bytes=100_000)
        for _ in range(ROUNDS):
            core.deposit(log, *(b"x" * 100 for _ in range(EACH)))
            core.commit()
            core.advance(10_000)
        core.close()
        with lmdb_environment.open_environment(path) as environment:
            flip(environment, kind, number, at)
        assert verify(path).problems
        made.append(Core(path, definitions=core.definitions))
        made[0].clock.time = core.clock.time
        return made[0]

    yield damage
    for core in made:
        core.close()


def read(core: Core, offset: object = "first") -> list[int]:
    follower = Follower().follow(stream(core), offset, prefetch=10_000)
    core.end_turn()
    core.commit()
    return follower.offsets


TOTAL = ROUNDS * EACH


@pytest.mark.parametrize(
    ("number", "at", "gone"),
    [
        (3, 20, range(3 * EACH, 4 * EACH)),
        (-1, 20, range(TOTAL - EACH, TOTAL)),
        (2, -1, range(3 * EACH - 1, 3 * EACH)),
    ],
    ids=["a segment", "the last segment", "a message"],
)
def test_what_is_damaged_is_passed_over(
    damaged: Callable[[bytes, int, int], Core], number: int, at: int, gone: range
) -> None:
    """No offset is given away."""
    core = damaged(SEGMENT, number, at)
    left = [offset for offset in range(TOTAL) if offset not in gone]
    assert read(core) == left
    assert read(core, gone[0]) == list(range(gone[-1] + 1, TOTAL))
    assert read(core, "next") == []
    core.deposit(stream(core), b"new")
    core.commit()
    assert read(core, left[-1]) == [left[-1], TOTAL]


def test_damaged_counters_cost_no_offset(damaged: Callable[[bytes, int, int], Core]) -> None:
    core = damaged(LANE, 0, 10)
    assert stream(core).ready == TOTAL
    assert stream(core).log.next == TOTAL
    core.deposit(stream(core), b"new")
    core.restart()
    assert read(core, TOTAL - 1) == [TOTAL - 1, TOTAL]


def test_a_damaged_segment_record_counts_with_the_next(damaged: Callable[[bytes, int, int], Core]) -> None:
    core = damaged(CLOSED_SEGMENT, 4, 10)
    assert read(core) == list(range(TOTAL))
    core.deposit(stream(core), *[b"x" * 1000] * (10 * EACH))
    core.commit()
    assert stream(core).log.first > TOTAL
    assert stream(core).ready == stream(core).log.next - stream(core).log.first


def test_a_time_is_found_in_spite_of_damage(damaged: Callable[[bytes, int, int], Core]) -> None:
    """Too early, if at all: nothing is passed over that could be read."""
    core = damaged(SEGMENT, 5, 20)
    for rounds in range(1, ROUNDS):
        wanted = (ROUNDS - rounds) * EACH
        (first, *_) = read(core, f"{rounds * 10}s")
        assert first <= wanted or wanted in range(5 * EACH, 6 * EACH)


# Of a queue


@pytest.mark.parametrize("taken", [6, 4])
def test_nothing_is_lost_when_what_was_acknowledged_comes_back(core: Core, taken: int) -> None:
    """The record of acknowledgements is damaged: messages come twice."""
    bodies, queue, reader = [b"%d" % number for number in range(6)], core.queue(), Reader()
    core.deposit(queue, *bodies)
    core.commit()
    assert [reader.get(queue) for _ in range(2)] == bodies[:2]
    reader.ack()
    core.commit()
    core.store.close()
    with lmdb_environment.open_environment(core.directory) as environment:
        flip(environment, SETTLED, 0, -1)
    core._start()
    queue = core.queue_named("q")
    assert [reader.get(queue) for _ in range(taken)] == bodies[:taken]
    reader.ack()
    core.restart()
    queue = core.queue_named("q")
    assert [reader.get(queue) for _ in range(queue.ready)] == bodies[taken:]
