"""The ready messages of a queue: what of them is in memory, read back in chunks, or passed over if it is lost.

That they come in their order, whatever was paged out and came back, is held against lists in
tests/models/test_queue_model.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.entities.messages.message import Entry
from broker.entities.queues.ordered_queue import LOAD_MESSAGES
from broker.entities.queues.queue import LOAD_BYTES, Queue
from broker.entities.queues.ready_messages import ReadyMessages, Window
from harness.brokers.broker_core import Core, Reader

WINDOW = Window(4, 100)


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    """A queue for entries to belong to; it is not used otherwise."""
    core = Core(tmp_path_factory.mktemp("ready") / "messages")
    yield core.queue()
    core.close()


class Shelf:
    """Ready messages with a disk beside them."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.ready = ReadyMessages(WINDOW, self.read_back)
        self.on_disk: dict[int, int] = {}

    def read_back(self, after: int, before: int, window: Window) -> list[Entry]:
        found = sorted(position for position in self.on_disk if after < position < before)
        return [Entry(self.queue, position, None, self.on_disk[position], 0) for position in found[: window.messages]]

    def append(self, position: int, size: int = 1) -> None:
        """A message comes, and reaches the disk."""
        if self.ready.paging:
            self.on_disk[position] = size
        self.ready.append(Entry(self.queue, position, None, size, 0))
        self.ready.stored(position)

    def resident(self) -> list[int]:
        return [entry.position for entry in self.ready.resident()]

    def pop_all(self) -> list[int]:
        """Take everything out; memory holds two windows at most: one read back, and the tail behind it."""
        positions = []
        while (entry := self.ready.pop()) is not None:
            positions.append(entry.position)
            assert len(self.resident()) <= 2 * WINDOW.messages
        assert (len(self.ready), self.ready.bytes) == (0, 0)
        return positions


@pytest.fixture
def shelf(queue: Queue) -> Shelf:
    return Shelf(queue)


def test_memory_holds_a_window_however_long_the_queue(shelf: Shelf) -> None:
    """Large messages make a window of few. Others were there at the start; what the disk has lost is passed over."""
    shelf.on_disk = dict.fromkeys(range(1, 11), 7)
    shelf.ready.restore(10, 70)
    assert (len(shelf.ready), shelf.ready.bytes) == (10, 70)
    for position in range(11, 301):
        shelf.append(position)
        assert len(shelf.resident()) <= WINDOW.messages
    lost = {*range(6, 10), 200, 300}
    for position in lost:
        del shelf.on_disk[position]
    assert shelf.pop_all() == [position for position in range(1, 301) if position not in lost]
    for position in (301, 302, 303):
        shelf.append(position, 60)
    assert shelf.resident() == [301, 302]


# Contents that are on disk only


def given_back(core: Core, count: int, size: int = 0) -> Queue:
    """A queue to which so many messages have come back, with nothing of them in memory."""
    queue, reader = core.queue(), Reader()
    core.deposit(queue, *(b"%06d" % number + bytes(size) for number in range(count)))
    core.commit()
    reader.give_back_unread(queue)
    return queue


def in_memory(queue: Queue) -> list[int]:
    """The sizes of the contents of ready messages that are in memory."""
    return [entry.size for entry in queue.ready_messages.resident() if entry.message is not None]


@pytest.mark.parametrize(("count", "size"), [(2 * LOAD_MESSAGES + 1, 0), (10, LOAD_BYTES // 8), (10, LOAD_BYTES * 2)])
def test_they_come_back_in_portions(core: Core, count: int, size: int) -> None:
    """Of so many messages, or of few that are large."""
    queue, reader = given_back(core, count, size), Reader()
    assert in_memory(queue) == []
    for number in range(count):
        body = reader.get(queue)
        assert body is not None
        assert body.startswith(b"%06d" % number)
        assert sum(in_memory(queue)) <= LOAD_BYTES
        assert len(in_memory(queue)) <= LOAD_MESSAGES
