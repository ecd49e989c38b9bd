"""The ready messages of a queue against a sorted list: what is in memory, what is on disk only, what came back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.entities.messages.message import Entry
from broker.entities.queues.queue import Queue
from broker.entities.queues.ready_messages import ReadyMessages, Window
from harness.brokers.broker_core import Core

WINDOW = Window(4, 100)
RUN_BYTES = 100


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    """A queue for entries to belong to; it is not used otherwise."""
    core = Core(tmp_path_factory.mktemp("backlog") / "messages")
    yield core.queue()
    core.close()


class Shelf:
    """A backlog with a disk beside it, and the positions that must be ready."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.ready_messages = ReadyMessages(WINDOW, self.read_back)
        self.given: dict[int, int] = {}  # to the store, position -> size
        self.on_disk: dict[int, int] = {}
        self.ready: list[int] = []
        self.out: list[Entry] = []
        self.sizes: dict[int, int] = {}
        self.position = 0

    def read_back(self, after: int, before: int, window: Window) -> list[Entry]:
        assert window == WINDOW
        found = sorted(position for position in self.on_disk if after < position < before)
        return [Entry(self.queue, position, None, self.on_disk[position], 0) for position in found[: window.messages]]

    def append(self, size: int, *, skip: int) -> None:
        self.position += 1 + skip
        self.sizes[self.position] = size
        if self.ready_messages.paging:
            self.given[self.position] = size
        self.ready.append(self.position)
        self.ready_messages.append(Entry(self.queue, self.position, None, size, 0))

    def pop(self) -> None:
        peeked, popped = self.ready_messages.peek(), self.ready_messages.pop()
        assert popped is peeked
        if not self.ready:
            assert popped is None
            return
        assert popped is not None
        assert popped.position == self.ready.pop(0)
        self.out.append(popped)

    def take_run(self, messages: int) -> None:
        """A run is what so many pops would give, or less; nothing only where a pop has to look closer."""
        taken = self.ready_messages.run(messages, RUN_BYTES, 0)
        assert len(taken) <= messages
        assert sum(entry.size for entry in taken[:-1]) < RUN_BYTES
        for entry in taken:
            assert entry.position == self.ready.pop(0)
        self.out.extend(taken)

    def settle(self) -> None:
        """What was taken longest ago is done with."""
        if self.out:
            position = self.out.pop(0).position
            self.given.pop(position, None)
            self.on_disk.pop(position, None)

    def give_back(self, count: int) -> None:
        entries, self.out = self.out[:count], self.out[count:]
        self.ready_messages.give_back(entries)
        self.ready = sorted([*self.ready, *(entry.position for entry in entries)])

    def store(self) -> None:
        """A batch reaches the disk."""
        if self.given:
            up_to = max(self.given)
            self.on_disk |= self.given
            self.given.clear()
            self.ready_messages.stored(up_to)

    def clear(self) -> None:
        assert self.ready_messages.clear() == len(self.ready)
        for position in self.ready:
            self.given.pop(position, None)
            self.on_disk.pop(position, None)
        self.ready.clear()

    def check(self) -> None:
        ready_messages = self.ready_messages
        assert len(ready_messages) == len(self.ready)
        assert ready_messages.bytes == sum(self.sizes[position] for position in self.ready)
        resident = {entry.position for entry in ready_messages.resident()}
        assert resident <= set(self.ready)
        assert set(self.ready) - resident <= self.on_disk.keys(), "neither in memory nor on disk"


actions = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([0, 10, 60, 200]), st.integers(0, 2)),
    st.tuples(st.just("append"), st.sampled_from([0, 10, 60, 200]), st.integers(0, 2)),
    st.tuples(st.just("give back"), st.integers(1, 5), st.just(0)),
    st.tuples(st.just("run"), st.integers(1, 5), st.just(0)),
    st.tuples(st.sampled_from(["pop", "pop", "settle", "store", "clear"]), st.just(0), st.just(0)),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(run=st.lists(actions, max_size=80))
def test_against_a_sorted_list(queue: Queue, run: list[tuple[str, int, int]]) -> None:
    shelf = Shelf(queue)
    for action, number, skip in run:
        match action:
            case "append":
                shelf.append(number, skip=skip)
            case "pop":
                shelf.pop()
            case "run":
                shelf.take_run(number)
            case "settle":
                shelf.settle()
            case "store":
                shelf.store()
            case "give back":
                shelf.give_back(number)
            case _:
                shelf.clear()
        shelf.check()
    while shelf.ready:
        shelf.pop()
        shelf.check()
    shelf.pop()


def test_memory_holds_a_window_however_long_the_queue(queue: Queue) -> None:
    shelf = Shelf(queue)
    for _ in range(1000):
        shelf.append(1, skip=0)
        shelf.store()
        assert len(shelf.ready_messages.resident()) <= WINDOW.messages
    while shelf.ready:
        shelf.pop()
        assert len(shelf.ready_messages.resident()) <= 2 * WINDOW.messages, "a window read back, and the tail behind it"


def test_large_messages_make_a_window_of_few(queue: Queue) -> None:
    shelf = Shelf(queue)
    for _ in range(3):
        shelf.append(60, skip=0)
        shelf.store()
    assert [entry.position for entry in shelf.ready_messages.resident()] == [1, 2]


def test_what_the_disk_has_lost_is_passed_over(queue: Queue) -> None:
    """The store has set aside records that it cannot read: neither order nor counts suffer."""
    shelf = Shelf(queue)
    for _ in range(20):
        shelf.append(1, skip=0)
        shelf.store()
    for lost in (*range(6, 10), *range(15, 21)):
        del shelf.on_disk[lost]
    left = []
    while (entry := shelf.ready_messages.pop()) is not None:
        left.append(entry.position)
    assert left == [1, 2, 3, 4, 5, 10, 11, 12, 13, 14]
    assert (len(shelf.ready_messages), shelf.ready_messages.bytes) == (0, 0)
    shelf.append(1, skip=0)
    assert shelf.ready_messages.pop() is not None


def test_a_queue_that_was_there_before_the_start(queue: Queue) -> None:
    shelf = Shelf(queue)
    shelf.on_disk = dict.fromkeys(range(1, 11), 7)
    shelf.sizes, shelf.ready, shelf.position = dict(shelf.on_disk), list(range(1, 11)), 100
    shelf.ready_messages.restore(10, 70)
    shelf.check()
    shelf.append(7, skip=0)
    while shelf.ready:
        shelf.pop()
        shelf.check()


def test_the_next_of_those_that_came_back(queue: Queue) -> None:
    shelf = Shelf(queue)
    for _ in range(4):
        shelf.append(1, skip=0)
        shelf.pop()
    shelf.give_back(4)
    assert [entry.position for entry in shelf.ready_messages.next_returned(3)] == [1, 2, 3]
    assert len(shelf.ready_messages) == 4


def test_a_run_ends_before_what_has_expired(queue: Queue) -> None:
    ready_messages = ReadyMessages(WINDOW, lambda after, before, window: [])
    for position, expires_at in ((1, 0), (2, 7), (3, 0)):
        ready_messages.append(Entry(queue, position, None, 1, expires_at))
    assert [entry.position for entry in ready_messages.run(10, RUN_BYTES, 8)] == [1]
    assert ready_messages.run(10, RUN_BYTES, 8) == [], "it has to be looked at"
    assert [entry.position for entry in ready_messages.run(10, RUN_BYTES, 7)] == [2, 3], (
        "what expires this moment has not yet"
    )
