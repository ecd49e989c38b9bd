"""The queue in which an x-delayed-message exchange keeps delayed messages until they are due.

Each such exchange has a queue of its own, which no client sees, with an id from the same sequence as other queues, and
a lane in the message store. Routing puts a message with a delay there instead of into the bound queues, so it is
written, confirmed and counted as in any queue. There are no consumers: messages leave in the order of their due times,
and are then published again by the bindings of that moment. The settlement and the new puts are in one turn, hence in
one batch: after a crash the message is either here or in the bound queues, never in both or neither.

Which of them are due when is kept by `DueMessages`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from broker.entities.messages.delay_header import delay_of, delayed
from broker.entities.messages.message import Message, QueuedMessage, headers_of
from broker.entities.queues.due_messages import DueMessages, due_of, position_of, size_of
from broker.entities.queues.queue import LOAD_BYTES, Queue, QueueContext, QueueSpec, Roles
from broker.entities.queues.queue_store import QueueStore
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.queues.ready_section import ReadySection

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.entities.scheduling.pending_batches import PendingBatches

log = logging.getLogger("leveret.queue")

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


class NothingReady:
    """The ready messages of a delay queue: always none, because messages are published again once they are due."""

    def __init__(self) -> None:
        self.bytes = 0
        self.in_memory = MemoryWindow(0, 0)
        self.head: QueuedMessage | None = None

    def __len__(self) -> int:
        return 0

    def look(self, section: ReadySection) -> None:
        """Add nothing."""

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
        lane = self._lane
        self._waiting = DueMessages(lambda: lane, context, self, self.touch)
        self._troubles: dict[int, Trouble] = {}  # by position
        self._reached = set[Queue]()  # by the message that is being published

    @property
    def messages(self) -> int:
        """Number of delayed messages."""
        return len(self._waiting)

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
        crowded = self._waiting.crowded
        if durable or crowded:
            self._lane.put(entry, durable=durable)
        self._waiting.add(entry, due, leaves=crowded)
        return durable

    def stored(self, lane: int, up_to: int) -> None:
        """Drop from memory messages beyond the window, up to a position that is on disk."""
        self.stored_up_to = up_to
        self._waiting.stored(up_to)

    # Out

    def deliver(self) -> None:
        """Publish due messages, one step of them."""
        self._touched = False
        if not self._waiting.complete or self.deleted:
            return
        # A release writes copies, so none is made while the disk cannot take them.
        if self._batches.disk_full or len(self._batches.sealed) > BATCHES_BEHIND_MAX:
            later = FULL_MILLISECONDS if self._batches.disk_full else BEHIND_MILLISECONDS
            self._waiting.look_by(self._context.now() + later)
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
            if copies >= RELEASE_COPIES:  # the rest stays due, and `DueMessages` comes back for it in a later turn
                self._wait_until(entry, entry.expires_at)
            else:
                self._attempt(entry)
                copies += len(self._reached)
        self._waiting.watch()

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
        """Put a message that was due back, with another due time."""
        self._waiting.add(entry, due)

    def _due(self) -> Iterator[QueuedMessage]:
        """Take due messages, at most RELEASE_MESSAGES and LOAD_BYTES."""
        now, bytes_left = self._context.now(), LOAD_BYTES
        for _ in range(RELEASE_MESSAGES):
            if bytes_left <= 0 or (number := self._waiting.pop_due(now)) is None:
                return
            position, size = position_of(number), size_of(number)
            bytes_left -= size
            entry = self._waiting.take_content(position) or self._on_disk(position, size)
            entry.expires_at = due_of(number)
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

    # The whole

    def delete(self) -> int:
        """Drop all messages; return their number."""
        super().delete()
        self._troubles.clear()
        self._release = None
        return self._waiting.end()

    def check(self) -> None:
        """Raise AssertionError unless those that wait are sound, and the store counts no more than those."""
        super().check()
        if self.deleted or not self._waiting.complete:
            return
        self._waiting.check()
        positions = self._waiting.positions()
        assert {entry.position for entry in self._waiting.resident()} <= positions, "one is in memory and does not wait"
        assert self._troubles.keys() <= positions, "a message that is to be tried again does not wait"
        messages = self._lane.state.messages
        assert 0 <= messages <= len(positions), f"the store counts {messages} messages, {len(positions)} wait"

    def restore(self) -> None:
        """Take up the messages that are on disk at a start; their due times are read in later turns."""
        self._lane.restore()
        self.stored_up_to = self._position
        self._waiting.restore()
