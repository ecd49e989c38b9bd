"""The queue in which an x-delayed-message exchange keeps delayed messages until they are due.

Each such exchange has a queue of its own, which no client sees, with an id from the same sequence as other queues, and
a lane in the message store. Routing puts a message with a delay there instead of into the bound queues, so it is
written, confirmed and counted as in any queue. There are no consumers: messages leave in the order of their due times,
and are then published again by the bindings of that moment. The settlement and the new puts are in one turn, hence in
one batch: after a crash the message is either here or in the bound queues, never in both or neither.

A heap in memory has one number per message: due time, position and body size, about 60 bytes each. The messages are in
memory up to a queue's window, beyond it on disk only. After a restart the heap is read back from the segments' indexes,
without bodies, in steps with other work in between; nothing is released until it is complete, so that the order holds.
"""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker.entities.messages.delay_header import delay_of, delayed
from broker.entities.messages.message import Message, QueuedMessage, headers_of
from broker.entities.queues.queue import LOAD_BYTES, Queue, QueueContext, QueueSpec, Roles
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.ready_messages import MemoryWindow
from storage.batch import COUNTER_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.entities.scheduling.pending_batches import PendingBatches

log = logging.getLogger("leveret.queue")

INDEX_MESSAGES = 4096
"""Due times read back in one step after a restart: a few milliseconds."""

RELEASE_MESSAGES = 128
"""Messages released in one turn, at most."""

RELEASE_COPIES = 1024
"""Copies put into queues in one turn, after which the other due messages are released in a later turn."""

BATCHES_BEHIND_MAX = 4
"""With more sealed batches than this, due messages wait too."""

BEHIND_MILLISECONDS, FULL_MILLISECONDS = 10, 1000
"""Time after which due messages that wait are tried again: while the disk is behind, and while it is full."""

AGAIN_MILLISECONDS, AGAIN_DOUBLINGS_MAX = 1000, 6
"""Time after which a message that could not be published is first retried, and how often that time doubles."""

_SIZE_BITS = 32
_POSITION_BITS = 64


class NothingReady:
    """The ready messages of a delay queue: always none, because messages are published again once they are due."""

    def __init__(self) -> None:
        self.bytes = 0
        self.in_memory = MemoryWindow(0, 0)
        self.head: QueuedMessage | None = None

    def __len__(self) -> int:
        return 0

    def end(self) -> int:
        """Return 0: there is nothing to drop."""
        return 0

    def check(self) -> None:
        """Check nothing."""


class Trouble(NamedTuple):
    """The failed attempts to publish a message, and the queues that it has reached nevertheless."""

    attempts: int
    reached: set[Queue]


class DelayQueue(Queue):
    """Delayed messages by due time; those due at the same time in publish order."""

    def __init__(
        self,
        spec: QueueSpec,
        roles: Roles,
        context: QueueContext,
        batches: PendingBatches,
        release: Callable[[Message, set[Queue]], None],
    ) -> None:
        super().__init__(spec, roles, context)
        self._lane: QueueStore = roles.store
        self._batches = batches
        self._release: Callable[[Message, set[Queue]], None] | None = release
        self._index: list[int] = []  # a heap, once everything has been read back
        self._unread_after: int | None = None
        self._in_memory: dict[int, QueuedMessage] = {}  # by position: those in memory
        self._in_memory_bytes = 0
        self._leaving: deque[int] = deque()  # positions that leave memory once they are on disk
        self._watched = 0
        self._troubles: dict[int, Trouble] = {}  # by position
        self._reached = set[Queue]()  # by the message that is being published

    @property
    def messages(self) -> int:
        """Number of delayed messages."""
        found = len(self._index)
        return found if self._unread_after is None else max(found, self._lane.state.messages)

    # In

    def publish(self, message: Message) -> bool:
        """Enqueue a message with a delay; return True if its confirm has to wait for the disk."""
        position = self._position + 1
        durable = self.durable and message.persistent
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=durable)
        self._position = position
        due = self._context.now() + delay_of(headers_of(message))
        entry = QueuedMessage(self, position, delayed(message), len(message.body), due)
        window = self._context.window
        crowded = len(self._in_memory) >= window.messages or self._in_memory_bytes >= window.bytes
        if durable or crowded:
            self._lane.put(entry, durable=durable)
        if crowded:
            self._leaving.append(position)
        self._in_memory[position] = entry
        self._in_memory_bytes += entry.size
        self._add(due, position, entry.size)
        return durable

    def stored(self, lane: int, up_to: int) -> None:
        """Drop from memory messages beyond the window, up to a position that is on disk."""
        self.stored_up_to = up_to
        while self._leaving and self._leaving[0] <= up_to:
            self._forget(self._leaving.popleft())

    def _add(self, due: int, position: int, size: int) -> None:
        item = (due << _POSITION_BITS | position) << _SIZE_BITS | size
        if self._unread_after is None:
            heapq.heappush(self._index, item)
            self._watch()
        else:
            self._index.append(item)

    def _forget(self, position: int) -> QueuedMessage | None:
        entry = self._in_memory.pop(position, None)
        if entry is not None:
            self._in_memory_bytes -= entry.size
        return entry

    # Out

    def deliver(self) -> None:
        """Publish due messages, one step of them."""
        self._touched = False
        if self._unread_after is not None or self.deleted:
            return
        # A release writes copies, so none is made while the disk cannot take them.
        if self._batches.disk_full or len(self._batches.sealed) > BATCHES_BEHIND_MAX:
            self._look_by(self._context.now() + (FULL_MILLISECONDS if self._batches.disk_full else BEHIND_MILLISECONDS))
            return
        entries = list(self._due())
        try:
            self._lane.load([entry for entry in entries if entry.message is None])
        except Exception:  # a disk error may pass: no message is lost by trying again
            log.exception("messages %s could not be read back", self.name)
            for entry in entries:
                self._try_again(entry, Trouble(0, set()))
            return
        copies = 0
        for entry in entries:
            if copies >= RELEASE_COPIES:  # the rest stays due, and `_watch` comes back for it in a later turn
                self._wait_until(entry, entry.expires_at)
            else:
                self._attempt(entry)
                copies += len(self._reached)
        self._watch()

    def _attempt(self, entry: QueuedMessage) -> None:
        """Publish a message; an error does not keep others from being published."""
        trouble = self._troubles.pop(entry.position, Trouble(0, set()))
        self._reached = trouble.reached
        try:
            self._let_go(entry)
        except Exception:
            log.exception("a message %s could not be published", self.name)
            self._try_again(entry, trouble)

    def _try_again(self, entry: QueuedMessage, trouble: Trouble) -> None:
        """Retry a message later, after a longer time for each attempt. Queues that it has reached do not get it
        again."""
        self._troubles[entry.position] = trouble._replace(attempts=trouble.attempts + 1)
        wait = AGAIN_MILLISECONDS << min(trouble.attempts, AGAIN_DOUBLINGS_MAX)
        self._wait_until(entry, self._context.now() + wait)

    def _wait_until(self, entry: QueuedMessage, due: int) -> None:
        """Put a message that was taken out of the index back, with a due time."""
        self._in_memory[entry.position] = entry
        self._in_memory_bytes += entry.size
        self._add(due, entry.position, entry.size)

    def _due(self) -> Iterator[QueuedMessage]:
        """Take due messages out of the index, at most RELEASE_MESSAGES and LOAD_BYTES."""
        now, bytes_left = self._context.now(), LOAD_BYTES
        for _ in range(RELEASE_MESSAGES):
            if not self._index or bytes_left <= 0 or self._index[0] >> _POSITION_BITS + _SIZE_BITS > now:
                return
            item = heapq.heappop(self._index)
            position, size = item >> _SIZE_BITS & (1 << _POSITION_BITS) - 1, item & (1 << _SIZE_BITS) - 1
            bytes_left -= size
            entry = self._forget(position) or self._on_disk(position, size)
            entry.expires_at = item >> _POSITION_BITS + _SIZE_BITS
            yield entry

    def _on_disk(self, position: int, size: int) -> QueuedMessage:
        entry = QueuedMessage(self, position, None, size, 0)
        entry.stored = True
        return entry

    def _let_go(self, entry: QueuedMessage) -> None:
        """Publish a message and settle it. A message that could not be read was set aside by the store, and
        uncounted."""
        if self.events is not None:
            self.events.released(entry)
        message = entry.message
        if message is None:
            return
        assert self._release is not None, "a deleted queue releases nothing"
        entry.persistent = self.durable and message.persistent
        self._release(message, self._reached)
        if entry.stored:
            self._lane.settle((entry,), moved=True)

    def _watch(self) -> None:
        """Set a timer for the first due time; messages that are due already get a later turn."""
        if self._index:
            self._look_by(max(self._index[0] >> _POSITION_BITS + _SIZE_BITS, self._context.soon()))

    def _look_by(self, at: int) -> None:
        """Set a timer for this time, unless an earlier one is set; it replaces a later one."""
        if not 0 < self._watched <= at:
            self._watched = at
            self._context.timers.at(at, lambda: self._look(at), self)

    def _look(self, at: int) -> None:
        if at == self._watched:
            self._watched = 0
            self.touch()

    # The whole

    def delete(self) -> int:
        """Drop all messages; return their number."""
        super().delete()
        waiting = self.messages
        self._unread_after = None
        self._index.clear()
        self._in_memory.clear()
        self._troubles.clear()
        self._leaving.clear()
        self._release = None
        return waiting

    def check(self) -> None:
        """Raise AssertionError unless the index is a heap of all messages, and those in memory are counted."""
        super().check()
        if self.deleted or self._unread_after is not None:
            return
        index = self._index
        assert all(index[(at - 1) // 2] <= index[at] for at in range(1, len(index))), "the index is no heap"
        positions = {item >> _SIZE_BITS & (1 << _POSITION_BITS) - 1 for item in index}
        assert len(positions) == len(index), "a message waits twice"
        assert self._in_memory.keys() <= positions, "a message is in memory and does not wait"
        assert self._troubles.keys() <= positions, "a message that is to be tried again does not wait"
        size = sum(entry.size for entry in self._in_memory.values())
        assert self._in_memory_bytes == size, f"{size} bytes are in memory, {self._in_memory_bytes} are counted"
        messages = self._lane.state.messages
        assert 0 <= messages <= len(index), f"the store counts {messages} messages, {len(index)} wait"

    def restore(self) -> None:
        """Take up the messages that are on disk at a start; their due times are read in later turns."""
        self._lane.restore()
        self.stored_up_to = self._position
        if self._lane.state.messages:
            self._unread_after = 0
            self._context.timers.at(self._context.now(), self._read_index)

    def _read_index(self) -> None:
        """Read one step of the due times of messages from before the start."""
        if self._unread_after is None:
            return
        found = self._lane.waiting(self._unread_after, self._context.boot << COUNTER_BITS, INDEX_MESSAGES)
        for message in found:
            self._add(message.due_at, message.position, message.size)
        if len(found) >= INDEX_MESSAGES:
            self._unread_after = found[-1].position
            self._context.timers.at(self._context.soon(), self._read_index)
        else:
            self._unread_after = None
            heapq.heapify(self._index)
            self.touch()
