"""Stored messages that wait for a time: by due time, those due at the same time in the order of their positions.

A heap in memory has one number per message: due time, position and body size, about 60 bytes each. The messages are in
memory up to a queue's window, beyond it on disk only. After a restart the heap is read back from the segments' indexes,
without bodies, in steps with other work in between; nothing is due until it is complete, so that the order holds.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from storage.batch import COUNTER_BITS

if TYPE_CHECKING:
    from broker.entities.messages.message import QueuedMessage
    from broker.entities.queues.queue import QueueContext
    from broker.entities.queues.queue_store import QueueStore
    from broker.entities.scheduling.timers import Owner

INDEX_MESSAGES = 1024
"""Due times read back in one step after a restart: a few milliseconds."""

_SIZE_BITS = 32
_POSITION_BITS = 64


def due_of(number: int) -> int:
    """Return when a message is due, in milliseconds since the epoch."""
    return number >> _POSITION_BITS + _SIZE_BITS


def position_of(number: int) -> int:
    """Return the position of a message."""
    return number >> _SIZE_BITS & (1 << _POSITION_BITS) - 1


def size_of(number: int) -> int:
    """Return the bytes of a message's body."""
    return number & (1 << _SIZE_BITS) - 1


class DueMessages:
    """The messages of one lane that wait. `when_due` is called when the first one is due.

    `lane`: returns the lane; it is asked for when there are messages.
    """

    def __init__(
        self, lane: Callable[[], QueueStore], context: QueueContext, owner: Owner, when_due: Callable[[], None]
    ) -> None:
        self._lane = lane
        self._context = context
        self._owner: Owner | None = owner
        self._when_due: Callable[[], None] | None = when_due
        self._index: list[int] = []  # a heap
        self._unread_after: int | None = None
        self._unread = self._unread_bytes = 0
        """Messages on disk at the start that were not read back yet, and bytes of their bodies."""
        self.bytes = 0
        """Bytes of the bodies of all."""
        self.last_due = 0
        """Due time of the last message, in milliseconds since the epoch; 0: none."""
        self._in_memory: dict[int, QueuedMessage] = {}  # by position: those in memory
        self._in_memory_bytes = 0
        self._leaving: deque[int] = deque()  # positions that leave memory once they are on disk
        self._watched = 0

    def __len__(self) -> int:
        return len(self._index) + self._unread

    @property
    def complete(self) -> bool:
        """All due times were read back since the start."""
        return self._unread_after is None

    @property
    def first_due(self) -> int | None:
        """Due time of the first message; None if there is none, or if it is not known yet."""
        return due_of(self._index[0]) if self._index and self.complete else None

    @property
    def crowded(self) -> bool:
        """The window in memory is full: a further message leaves it once it is on disk."""
        window = self._context.window
        return len(self._in_memory) >= window.messages or self._in_memory_bytes >= window.bytes

    def add(self, entry: QueuedMessage, due: int, *, leaves: bool = False) -> None:
        """Add a message whose content is in memory; it `leaves` that once it is on disk."""
        if leaves:
            self._leaving.append(entry.position)
        self._in_memory[entry.position] = entry
        self._in_memory_bytes += entry.size
        self.bytes += entry.size
        self._index_it(due, entry.position, entry.size)
        if self.complete:
            self.watch()

    def _index_it(self, due: int, position: int, size: int) -> None:
        if due > self.last_due:
            self.last_due = due
        heapq.heappush(self._index, (due << _POSITION_BITS | position) << _SIZE_BITS | size)

    def stored(self, up_to: int) -> None:
        """Drop from memory messages beyond the window, up to a position that is on disk."""
        while self._leaving and self._leaving[0] <= up_to:
            self.take_content(self._leaving.popleft())

    def pop_due(self, now: int) -> int | None:
        """Remove the first message if it is due, and return its number; else None."""
        if not self._index or due_of(self._index[0]) > now or not self.complete:
            return None
        number = heapq.heappop(self._index)
        self.bytes -= size_of(number)
        if not self._index:
            self.last_due = 0
        return number

    def content(self, position: int) -> QueuedMessage | None:
        """Return a message that is in memory; None if it is on disk only."""
        return self._in_memory.get(position)

    def take_content(self, position: int) -> QueuedMessage | None:
        """Remove a message from memory and return it; None if it is on disk only."""
        entry = self._in_memory.pop(position, None)
        if entry is not None:
            self._in_memory_bytes -= entry.size
        return entry

    # When it is due

    def watch(self) -> None:
        """Set a timer for the first due time; messages that are due already get a later turn."""
        if self._index:
            self.look_by(max(due_of(self._index[0]), self._context.soon()))

    def look_by(self, at: int) -> None:
        """Set a timer for this time, unless an earlier one is set; it replaces a later one."""
        if not 0 < self._watched <= at:
            self._watched = at
            self._context.timers.at(at, lambda: self._look(at), self._owner)

    def _look(self, at: int) -> None:
        if at == self._watched and self._when_due is not None:
            self._watched = 0
            self._when_due()

    # The whole

    def restore(self) -> None:
        """Take up the messages that are on disk at a start; their due times are read in later turns."""
        state = self._lane().state
        if state.messages:
            self._unread, self._unread_bytes = state.messages, state.bytes
            self.bytes += state.bytes
            self._unread_after = 0
            self._context.timers.at(self._context.now(), self._read_index, self._owner)

    def _read_index(self) -> None:
        """Read one step of the due times of messages from before the start."""
        if self._unread_after is None:
            return
        found = self._lane().waiting(self._unread_after, self._context.boot << COUNTER_BITS, INDEX_MESSAGES)
        self._unread = max(0, self._unread - len(found))
        for message in found:
            self._unread_bytes -= message.size
            self._index_it(message.due_at, message.position, message.size)
        if len(found) >= INDEX_MESSAGES:
            self._unread_after = found[-1].position
            self._context.timers.at(self._context.soon(), self._read_index, self._owner)
        else:
            self._unread_after, self._unread = None, 0
            self.watch()
            self.bytes -= self._unread_bytes  # of messages that could not be read, and are set aside
            self._unread_bytes = 0
            if self._when_due is not None:
                self._when_due()

    def clear(self) -> int:
        """Forget all messages; return their number."""
        count = len(self)
        self._unread_after, self._unread, self._unread_bytes = None, 0, 0
        self.bytes = self.last_due = self._in_memory_bytes = 0
        self._index.clear()
        self._in_memory.clear()
        self._leaving.clear()
        return count

    def end(self) -> int:
        """Forget all messages, and the queue, which is deleted; return their number."""
        self._when_due = self._owner = None
        return self.clear()

    def check(self) -> None:
        """Raise AssertionError unless the index is a heap of all messages, and those in memory are counted."""
        if not self.complete:
            return
        index = self._index
        assert all(index[(at - 1) // 2] <= index[at] for at in range(1, len(index))), "the index is no heap"
        assert len(set(map(position_of, index))) == len(index), "a message waits twice"
        size = sum(entry.size for entry in self._in_memory.values())
        assert self._in_memory_bytes == size, f"{size} bytes are in memory, {self._in_memory_bytes} are counted"
        waiting = sum(map(size_of, index))
        assert self.bytes == waiting, f"{waiting} bytes wait, {self.bytes} are counted"

    def positions(self) -> set[int]:
        """Return the positions of all messages, for invariants."""
        return set(map(position_of, self._index))

    def resident(self) -> list[QueuedMessage]:
        """Return the messages that are in memory, for statistics and invariants."""
        return list(self._in_memory.values())
