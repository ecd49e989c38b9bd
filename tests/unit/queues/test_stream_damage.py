"""A stream whose records are damaged: what can be read is read, offsets stay, and new ones are new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lmdb
import pytest

from harness.brokers.broker_core import Core
from harness.clients.stream_steps import Follower, stream
from storage.messages import lmdb_environment
from storage.messages.keys import CLOSED_SEGMENT, LANE, SEGMENT
from storage.messages.verify_messages import verify

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
        with lmdb_environment.open_environment(path) as environment, environment.begin(write=True) as txn:
            flip(txn, kind, number, at)
        assert verify(path).problems
        made.append(Core(path, definitions=core.definitions))
        made[0].clock.time = core.clock.time
        return made[0]

    yield damage
    for core in made:
        core.close()


def flip(txn: lmdb.Transaction, kind: bytes, number: int, at: int) -> None:
    """Damage one byte of a record."""
    found = [(bytes(key), bytearray(value)) for key, value in txn.cursor() if bytes(key).startswith(kind)]
    key, value = found[number]
    value[at] ^= 0x55
    txn.put(key, bytes(value))


def read(core: Core, offset: object = "first") -> list[int]:
    follower = Follower().follow(stream(core), offset, prefetch=10_000)
    core.end_turn()
    core.commit()
    return follower.offsets


TOTAL = ROUNDS * EACH


def test_a_damaged_segment_is_passed_over(damaged: Callable[[bytes, int, int], Core]) -> None:
    core = damaged(SEGMENT, 3, 20)
    gone = range(3 * EACH, 4 * EACH)
    assert read(core) == [offset for offset in range(TOTAL) if offset not in gone]
    assert read(core, gone[5]) == list(range(gone[-1] + 1, TOTAL))
    core.deposit(stream(core), b"new")
    core.commit()
    assert read(core, TOTAL - 1) == [TOTAL - 1, TOTAL]


def test_the_last_segment_damaged_gives_no_offset_away(damaged: Callable[[bytes, int, int], Core]) -> None:
    core = damaged(SEGMENT, -1, 20)
    assert read(core, "next") == []
    core.deposit(stream(core), b"new")
    core.commit()
    assert read(core, TOTAL - EACH - 1) == [TOTAL - EACH - 1, TOTAL]


def test_a_damaged_message_is_passed_over(damaged: Callable[[bytes, int, int], Core]) -> None:
    core = damaged(SEGMENT, 2, -1)
    gone = 3 * EACH - 1
    assert read(core) == [offset for offset in range(TOTAL) if offset != gone]


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
    for _ in range(100):
        core.deposit(stream(core), *(b"x" * 1000 for _ in range(EACH)))
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
