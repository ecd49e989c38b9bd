"""The message store as queues see it: what is put comes back, what is settled does not, whatever happens between."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_core import flip
from storage.batch import TRANSIENT_QUEUE, WaitingMessage
from storage.messages.keys import SEGMENT
from storage.messages.message_store import MessageStore
from storage.offline.verify_messages import verify
from tests.unit.storage.writing import END, HEADER, ROUTE, Writer, bodies, clear_away


@pytest.fixture
def store(path: Path) -> Iterator[MessageStore]:
    with MessageStore.open(path) as store:
        yield store


@pytest.fixture
def writer(store: MessageStore) -> Writer:
    return Writer(store)


def numbered(count: int, size: int = 10) -> list[bytes]:
    return [str(number).encode().ljust(size, b".") for number in range(count)]


# Putting and reading


def test_what_a_read_gives(store: MessageStore, writer: Writer) -> None:
    """Messages as they were put, with both ends exclusive, up to either limit, but one at least."""
    position = writer.put(7, b"body", expires_at=1_700_000_000_000)
    positions = writer.puts(1, numbered(20, size=100))
    writer.flush()
    (message,) = store.read(7, 0, 0, END, 10, 1000)
    assert message.position == position
    assert (message.route, message.header, message.body) == (ROUTE, HEADER, b"body")
    assert (message.flags, message.expires_at, message.delivery_count, message.body_id) == (1, 1_700_000_000_000, 0, 0)
    for count, size, found in ((3, 1 << 20, 3), (100, 1, 1), (0, 1 << 20, 0)):
        assert len(store.read(1, 0, 0, END, count, size)) == found
    between = store.read(1, 0, positions[2], positions[6], 100, 1 << 20)
    assert [message.position for message in between] == positions[3:6]


def test_a_late_run_may_span_many_segments(store: MessageStore, writer: Writer) -> None:
    places = [writer.next_position() for _ in range(3000)]
    for index in range(0, 3000, 2):
        writer.put(1, b"%d" % index, position=places[index])
    writer.flush()
    writer.settle(1, *places[100:200:2])
    writer.flush()
    for index in range(1, 3000, 2):
        writer.put(1, b"%d" % index, position=places[index])
    writer.flush()
    assert bodies(store, 1) == [b"%d" % i for i in range(3000) if i % 2 or not 100 <= i < 200]


# Settling


def test_acks_in_order_touch_few_records(store: MessageStore, writer: Writer) -> None:
    """A segment that is mostly settled is written again."""
    positions = writer.puts(1, numbered(2000, size=100))
    writer.flush()
    before = store.statistics().entries
    for start in range(0, 2000, 100):
        writer.settle(1, *positions[start : start + 100])
        writer.flush()
        # The segments go one by one; beside them there is one bitmap at most.
        assert store.statistics().entries <= before + 1
    assert store.statistics().entries == 3  # identity, mark of the journal and counters
    positions = writer.puts(1, numbered(200, size=1000))
    writer.flush()
    full = store.statistics().live_bytes
    writer.settle(1, *positions[:199])
    writer.flush()
    assert store.statistics().live_bytes < full // 8
    assert bodies(store, 1) == [numbered(200, size=1000)[199]]


def test_the_file_stays_near_the_live_data(store: MessageStore, writer: Writer) -> None:
    """Publish and ack for a long while with a steady number of messages: freed pages must be used again."""
    random_numbers, live, size, live_limit = random.Random(4), [], 900, 1 << 20
    payload = random_numbers.randbytes(4096)
    for _ in range(60):
        sizes = [random_numbers.randrange(1, 2 * size) for _ in range(random_numbers.randrange(20, 400))]
        live += writer.puts(1, [payload[:length] for length in sizes])
        excess = max(0, len(live) - live_limit // size)
        writer.settle(1, *live[:excess])
        del live[:excess]
        writer.flush()
    statistics = store.statistics()
    assert statistics.file_bytes <= 2 * live_limit + (4 << 20)


# Counters and restarts


def test_transient_messages_and_queues_end_with_their_boot(path: Path) -> None:
    """They leave nothing behind, and the ids of the queues start again."""
    queue_id = TRANSIENT_QUEUE + 1
    with MessageStore.open(path) as store:
        writer = Writer(store)
        for number in range(3000):
            writer.put(queue_id, b"old %d" % number, body_id=5)
            writer.put(1, b"%d" % number, persistent=False)
        writer.flush()
    with MessageStore.open(path) as store:
        assert store.lanes().keys() <= {1}
        assert store.pending_deletions() == set()
        writer = Writer(store)
        writer.put(queue_id, b"new")
        writer.flush()
        assert (bodies(store, queue_id), bodies(store, 1)) == ([b"new"], [])
        clear_away(store, 1)
        assert bodies(store, queue_id) == [b"new"]
        assert store.statistics().entries == 5  # identity, mark of the journal, counters of both queues, one segment
        writer.delete(queue_id)
        writer.flush()
        clear_away(store)
        assert store.statistics().entries == 3


# Purging and deleting


def test_a_purge_is_cleared_away_in_bounded_steps_over_restarts(path: Path) -> None:
    with MessageStore.open(path) as store:
        writer = Writer(store)
        positions = []
        for _ in range(40):
            positions += writer.puts(1, numbered(10))
            writer.flush()
        writer.purge(1, positions[5:6])
        writer.flush()
        entries = store.statistics().entries
        assert entries > 20
        assert store.reclaim(3)
        assert entries - store.statistics().entries <= 6  # a segment and its bitmap each
    with MessageStore.open(path) as store:
        assert bodies(store, 1) == [b"5" + b"." * 9]
        assert clear_away(store, 3) > 3
        assert bodies(store, 1) == [b"5" + b"." * 9]
        assert store.statistics().entries <= 5
    assert verify(path).problems == []


# Delayed messages


def test_times_of_delayed_messages_are_read_without_bodies_in_pieces(path: Path) -> None:
    """Those of transient messages until the process ends; a damaged segment is reported and passed over."""
    with MessageStore.open(path) as store:
        writer, positions = Writer(store), list[int]()
        for segment in ((b"a", 300), (b"bb", 100)), ((b"ccc", 200), (b"ddd", 50)):
            positions += [writer.delay(7, body, due) for body, due in segment]
            writer.flush()
        one, two, three, four = positions
        first = store.waiting(7, 0, 0, END, 1)
        assert first == [WaitingMessage(one, 300, 1), WaitingMessage(two, 100, 2)]
        rest = store.waiting(7, 0, two, END, 1)
        assert rest == [WaitingMessage(three, 200, 3), WaitingMessage(four, 50, 3)]
        assert store.waiting(7, 0, four, END, 1) == []
        assert store.waiting(7, 0, one, four, 10) == [first[1], rest[0]]
        transient = writer.delay(7, b"e", 10, persistent=False)
        writer.settle(7, two)
        writer.flush()
        assert [found.position for found in store.waiting(7, 0, 0, END, 10)] == [one, three, four, transient]
    assert verify(path).problems == []
    with MessageStore.open(path) as store:
        left = store.waiting(7, 0, 0, END, 10)
        assert [found.position for found in left] == [one, three, four]
        flip(store._environment, SEGMENT, 0, 20)
        assert store.waiting(7, 0, 0, END, 10) == left[1:]
        assert [record.queue_id for record in store.corrupt] == [7]
