"""Returned messages of a quorum queue that are delayed: `x-delayed-retry-type` of RabbitMQ 4.3.

A delayed message is written again into a lane of its own with the time at which it is due, in the batch that settles
the old one: so after a crash it is either unacknowledged or delayed. It stays in that lane until it is settled. When it
is due it is put behind the other returned messages, hence before all that were not returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.due_messages import DueMessages, position_of, size_of
from broker.entities.queues.queue import LOAD_BYTES
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from broker.entities.queues.quorum.quorum_store import RETRIES

if TYPE_CHECKING:
    from broker.entities.queues.queue import QueueContext
    from broker.entities.queues.quorum.quorum_queue import QuorumQueue
    from broker.entities.queues.quorum.quorum_store import QuorumStore

DUE_AT_ONCE = 512
"""Due messages that become ready in one turn: about a millisecond."""


class DelayedMessages:
    """The messages of one queue that are delayed. `ready` is called with the numbers of those that are due."""

    def __init__(
        self, queue: QuorumQueue, store: QuorumStore, context: QueueContext, ready: Callable[[list[int]], None]
    ) -> None:
        self._queue: QuorumQueue | None = queue
        self._store = store
        self._context = context
        self._ready: Callable[[list[int]], None] | None = ready
        self._waiting = DueMessages(lambda: store.retries, context, queue, self.release)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of all."""
        return self._waiting.bytes

    @property
    def complete(self) -> bool:
        """All due times were read back since the start."""
        return self._waiting.complete

    @property
    def next_due(self) -> int | None:
        """Due time of the first one, in milliseconds since the epoch; None: there is none, or it is not known yet."""
        return self._waiting.first_due

    @property
    def last_due(self) -> int | None:
        """Due time of the last one."""
        return self._waiting.last_due or None

    def add(self, entry: QuorumEntry, due: int) -> None:
        """Delay a message, which has a new position, until a time."""
        entry.level = RETRIES
        crowded = self._waiting.crowded
        self._store.retries.put_delayed(entry, due)
        self._waiting.add(entry, due, leaves=crowded)

    def release(self) -> None:
        """Make due messages ready, some at a time."""
        now, numbers = self._context.now(), list[int]()
        while len(numbers) < DUE_AT_ONCE and (number := self._waiting.pop_due(now)) is not None:
            numbers.append(number)
        self._waiting.watch()
        if numbers and self._ready is not None:
            self._ready(numbers)

    def bring(self, numbers: Sequence[int]) -> Sequence[QueuedMessage]:
        """Return the first of these due messages with their contents, at least one, at most LOAD_BYTES."""
        entries, unread, bytes_left = list[QueuedMessage](), list[QueuedMessage](), LOAD_BYTES
        for number in numbers:
            entry = self._waiting.take_content(position_of(number))
            if entry is None:
                bytes_left -= size_of(number)
                if bytes_left < 0 and entries:
                    break
                entry = self._on_disk(number)
                unread.append(entry)
            entries.append(entry)
        self._store.retries.load(unread)
        return entries

    def look_at(self, number: int) -> QueuedMessage:
        """Return a due message by its number, without its content if that is on disk only. Nothing changes."""
        return self._waiting.content(position_of(number)) or self._on_disk(number)

    def _on_disk(self, number: int) -> QuorumEntry:
        assert self._queue is not None, "a deleted queue has no messages"
        entry = QuorumEntry(self._queue, position_of(number), None, size_of(number), 0)
        entry.stored = entry.persistent = entry.redelivered = True
        entry.level = RETRIES
        return entry

    def stored(self, up_to: int) -> None:
        """Note that delayed messages up to a position are on disk."""
        self._waiting.stored(up_to)

    def restore(self) -> None:
        """Take up the messages that are on disk at a start. They are ready, if they are due, in later turns."""
        self._waiting.restore()

    def clear(self) -> int:
        """Forget all messages; return their number."""
        return self._waiting.clear()

    def end(self) -> None:
        """Forget all messages, and the queue, which is deleted."""
        self._waiting.end()
        self._queue = self._ready = None

    def check(self) -> None:
        """Raise AssertionError unless the messages that wait are sound."""
        self._waiting.check()
        for entry in self._waiting.resident():
            assert entry.level == RETRIES, f"message {entry.position} is delayed in level {entry.level}"
