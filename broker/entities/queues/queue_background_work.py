"""Background work of one queue: bulk requeues and rejections, and the removal of many expired or excess messages.

One frame can requeue or reject every unacknowledged message of a channel, and a start or a lower limit can leave most
of a queue expired or in excess. Only one step of that is done at once. The rest is background work, one portion per
turn: returned messages first, in order of arrival, then messages at the head. Bodies are read back one step at a time
and released with it. Steps that write wait while the disk is behind. A queue without a dead-letter exchange writes
nothing for a rejection, which is then the same as an acknowledgement, nor for the removal of its head, so both go on
while the disk is full. A returned message counts as unacknowledged until it is handled.

A dead letter and the settlement of its original are in the same step, hence in one turn and one batch. A step ends
early where its dead letters go to many queues.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.entities.messages.message import QueuedMessage
from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES, until_done
from broker.entities.scheduling.future import Future

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments
    from broker.entities.scheduling.background_work import BackgroundWork
    from broker.entities.scheduling.pending_batches import PendingBatches
    from broker.entities.scheduling.turn import Turn

log = logging.getLogger("leveret.queue")

CHUNK_BYTES = PORTION_BYTES // 8
"""Bytes handled in one step, MESSAGE_BYTES for each message included; at least one message."""

RETURN_BYTES = MESSAGE_BYTES // 16
"""Cost of a message of any size that only goes back to its position: it is neither read nor written."""

RETURNED_MESSAGES_MAX = 4096
"""While more returned messages than this wait, nothing is delivered: a client that rejects faster than the disk writes
is slowed down."""


class HeadLimits(Protocol):
    """The limits that decide which messages at the head are removed."""

    on_length: bool

    def remove_some(self) -> int:
        """Remove one step of them; return its size in bytes, 0 when none is left."""

    def drop_excess_of_returned(self) -> None:
        """Drop the oldest messages if returned messages exceed the length limit."""


class WorkedQueue(Protocol):
    """The queue that the work is for."""

    arguments: QueueArguments

    @property
    def limits(self) -> HeadLimits:
        """Its limits."""

    def touch(self) -> None:
        """Have the queue deliver at the end of this turn."""


HandleReturned = Callable[[Sequence[QueuedMessage]], int]
"""Handles the first of some returned messages and returns their number, at least 1."""


class Returned(NamedTuple):
    """Messages that were returned together, and how to handle them."""

    entries: deque[QueuedMessage]
    handle: HandleReturned
    writes: bool
    """`handle` writes to disk, so it may have to wait for it."""
    first: bool
    """They are delivered before all ready messages: nothing is delivered until they are handled."""
    ready: bool
    """They become ready when handled, so a purge drops them with the ready messages."""


class QueueBackgroundWork:
    """The background work of one queue."""

    __slots__ = (
        "_background_work",
        "_batches",
        "_done",
        "_first",
        "_queue",
        "_returned",
        "_turn",
        "expected",
        "messages",
        "working",
    )

    def __init__(
        self, queue: WorkedQueue, background_work: BackgroundWork, batches: PendingBatches, turn: Turn
    ) -> None:
        self._queue: WorkedQueue | None = queue
        self._background_work = background_work
        self._batches = batches
        self._turn = turn
        self._returned: list[Returned] = []
        self.messages = 0
        """Number of returned messages that wait."""
        self.expected: list[Future[None]] = []
        """One future for each requeue that takes several turns, settled when all its messages are back."""
        self._first = 0
        self.working = False
        """Some work is unfinished; one portion of it is done in each turn."""
        self._done = _NOTHING

    @property
    def entries(self) -> Iterator[QueuedMessage]:
        """The returned messages that wait."""
        return chain.from_iterable(returned.entries for returned in self._returned)

    @property
    def delays_delivery(self) -> bool:
        """Ready messages must not be delivered before the returned ones are handled."""
        return bool(self.expected) or self._first > 0 or self.messages > RETURNED_MESSAGES_MAX

    @property
    def head_has_to_wait(self) -> bool:
        """The disk is so far behind that not even one step at the head may be removed now."""
        return self._batches.full and not self._removal_frees_disk

    def take_in(
        self, entries: Sequence[QueuedMessage], handle: HandleReturned, *, writes: bool, first: bool, ready: bool
    ) -> None:
        """Handle returned messages: few of them at once, unless others wait; see `Returned` for the flags."""
        if self._batches.urgent:
            # Part of a transaction: everything belongs in the open batch.
            while entries:
                done = handle(entries)
                entries = entries[done:]
        elif not (self._returned or (writes and self._batches.full)) and _are_few(entries, writes=writes):
            done = handle(entries)
            entries = entries[done:]
        if not entries:
            return
        for entry in entries:
            entry.consumer = None
        self._returned.append(Returned(deque(entries), handle, writes, first, ready))
        self.messages += len(entries)
        self._first += first * len(entries)
        self.begin()

    def begin(self) -> Future[None]:
        """Do the first portion now, unless the disk is behind; return a future that is settled once all is done.

        If work is under way already, return its future.
        """
        if not self.working:
            self.working = True
            self._done = self._background_work.begin(until_done(self._step, self._ended), self._has_to_wait)
        return self._done

    def expect(self, back: Future[None]) -> None:
        """Deliver nothing until `back` is settled, when all messages of a requeue over several turns are back.

        Then apply the length limit.
        """
        self.expected.append(back)
        back.then(self._came_back)

    def _came_back(self, back: Future[None]) -> None:
        self.expected.remove(back)
        if self._queue is not None and not self.expected:
            if self._queue.limits.on_length and not self.messages:
                self._queue.limits.drop_excess_of_returned()
            self._queue.touch()

    def purge(self) -> list[QueuedMessage]:
        """Drop the waiting messages that would become ready, and return them. Those to be dead-lettered stay."""
        dropped = list[QueuedMessage]()
        for returned in self._returned:
            if returned.ready:
                self._uncount(returned, len(returned.entries))
                dropped += returned.entries
        self._returned = [returned for returned in self._returned if not returned.ready]
        return dropped

    def end(self) -> list[QueuedMessage]:
        """Forget the queue, which is deleted; return the messages that waited."""
        left = list(self.entries)
        self.messages, self._first = 0, 0
        self._returned.clear()
        self._queue = None
        return left

    def check(self) -> None:
        """Raise AssertionError unless the waiting messages are counted, without a consumer, and being handled."""
        entries = list(self.entries)
        assert len(entries) == self.messages, f"{len(entries)} returned messages wait, {self.messages} are counted"
        first = sum(len(returned.entries) for returned in self._returned if returned.first)
        assert first == self._first, f"{first} returned messages go out first, {self._first} are counted"
        assert len(set(map(id, entries))) == len(entries), "a returned message waits twice"
        for entry in entries:
            assert entry.consumer is None, f"message {entry.position} was returned and is with a consumer"
        assert self.working or not entries, f"{len(entries)} returned messages are not being handled"

    def _ended(self) -> None:
        self.working = False
        if self._queue is not None:
            self._queue.touch()

    def _step(self) -> int:
        """Do one step; return its size in bytes, 0 when nothing is left."""
        if self._queue is None:
            return 0
        return self._handle_some() if self._returned else self._queue.limits.remove_some()

    def _handle_some(self) -> int:
        """Handle one step of the oldest returned messages; return its size in bytes. An error skips that step only."""
        returned, copies = self._returned[0], self._turn.dead_letter_copies
        chunk, size = list[QueuedMessage](), 0
        while returned.entries and (size := size + _cost(returned.entries[0], writes=returned.writes)) <= CHUNK_BYTES:
            chunk.append(returned.entries.popleft())
        if not chunk:  # a message larger than a step is a step of its own
            chunk.append(returned.entries.popleft())
        self._uncount(returned, len(chunk))
        try:
            left = chunk[returned.handle(chunk) :]
        except Exception:
            log.exception("%d returned messages could not be handled", len(chunk))
            left = []
        if left:
            # The dead letters of the others go to many queues: these are handled in a later step.
            self._uncount(returned, -len(left))
            returned.entries.extendleft(reversed(left))
            size -= sum(_cost(entry, writes=returned.writes) for entry in left)
        if not returned.entries:
            del self._returned[0]
        return max(size, MESSAGE_BYTES * (self._turn.dead_letter_copies - copies))

    def _uncount(self, returned: Returned, count: int) -> None:
        self.messages -= count
        self._first -= returned.first * count

    def _has_to_wait(self) -> bool:
        if self._queue is None or not self._batches.crowded:
            return False
        return self._returned[0].writes if self._returned else not self._removal_frees_disk

    @property
    def _removal_frees_disk(self) -> bool:
        """The disk is full, and removing the head frees some of it, because no dead letters are written instead."""
        full, queue = self._batches.disk_full, self._queue
        return full and queue is not None and queue.arguments.dead_letter_exchange is None


_NOTHING = Future.resolved(None)


def _cost(entry: QueuedMessage, *, writes: bool) -> int:
    return entry.size + MESSAGE_BYTES if writes else RETURN_BYTES


def _are_few(entries: Sequence[QueuedMessage], *, writes: bool) -> bool:
    """Return whether these fit into one step; bodies are added up only where the count does not decide it."""
    least = len(entries) * (MESSAGE_BYTES if writes else RETURN_BYTES)
    if least > CHUNK_BYTES or not writes or len(entries) == 1:
        return least <= CHUNK_BYTES
    return least + sum(entry.size for entry in entries) <= CHUNK_BYTES
