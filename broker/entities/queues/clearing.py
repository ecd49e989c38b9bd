"""What a queue has to deal with and cannot in one turn: messages that came back in large numbers, and long heads.

A client can give back, reject or leave behind with one frame whatever is out with it, and a start or a new limit can
find most of a queue expired or too much. Little of that is done at once. The rest is background work of the queue, a
portion in each turn: first what came back, in its line, then what is to go at the head. Bodies are read back a chunk
at a time and let go with it, and what writes waits for the disk while that is behind. Where nothing is written,
because the queue has no dead-letter exchange, a rejection is as good as an acknowledgement, and what is to go at the
head goes on a full disk too. A message in the line counts as unacknowledged. A dead letter and the end of its
original are in one chunk, therefore in one turn and one batch. A chunk is cut short where its dead letters go to many
queues.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol

from broker.entities.messages.message import Entry
from broker.entities.scheduling.background_work import MESSAGE_BYTES, PORTION_BYTES, until_done
from broker.entities.scheduling.future import Future

if TYPE_CHECKING:
    from broker.entities.arguments.queue_arguments import QueueArguments
    from broker.entities.queues.batch_queue import BatchQueue
    from broker.entities.scheduling.background_work import BackgroundWork
    from broker.entities.scheduling.turn import Turn

log = logging.getLogger("leveret.queue")

CHUNK_BYTES = PORTION_BYTES // 8
"""How much is dealt with in one step, MESSAGE_BYTES for each message included; one message at least."""

RETURN_BYTES = MESSAGE_BYTES // 16
"""What a message counts that is only put into its place again: neither read nor written, and whatever its size."""

LINE_MESSAGES_MAX = 4096
"""With more in line than this, nothing is delivered: a client that rejects faster than the disk writes has to wait."""


class HeadLimits(Protocol):
    """What says which messages are to go at the head."""

    on_length: bool

    def clear_some(self) -> int:
        """Let go of some of them; how much that was in bytes, 0 when nothing is left."""

    def make_room_for_returned(self) -> None:
        """Messages have come back and may be too many."""


class Cleared(Protocol):
    """The queue that the work is for."""

    arguments: QueueArguments

    @property
    def limits(self) -> HeadLimits:
        """Its limits."""

    def touch(self) -> None:
        """There may be something to deliver."""


DealWith = Callable[[Sequence[Entry]], int]
"""Deals with messages that came back, the first of them; with how many, one at least."""


class Returned(NamedTuple):
    """Messages that came back together, and what is to be done with them, some at a time."""

    entries: deque[Entry]
    deal_with: DealWith
    writes: bool
    """It writes to disk: it may have to wait for that."""
    first: bool
    """They go out again before what is ready: nothing may be delivered until they are back."""
    ready: bool
    """They will be ready once they are dealt with, so a purge drops them with what is ready."""


class Clearing:
    """The background work of one queue."""

    __slots__ = (
        "_background_work",
        "_batches",
        "_done",
        "_first",
        "_line",
        "_queue",
        "_turn",
        "expected",
        "size",
        "working",
    )

    def __init__(self, queue: Cleared, background_work: BackgroundWork, batches: BatchQueue, turn: Turn) -> None:
        self._queue: Cleared | None = queue
        self._background_work = background_work
        self._batches = batches
        self._turn = turn
        self._line: list[Returned] = []
        self.size = 0
        """How many messages are in line."""
        self.expected: list[Future[None]] = []
        """What is settled when messages are back of which some come in each turn."""
        self._first = 0
        self.working = False
        """Something is to be done still, by a portion in each turn."""
        self._done = _NOTHING

    @property
    def entries(self) -> Iterator[Entry]:
        """The messages in line."""
        return chain.from_iterable(returned.entries for returned in self._line)

    @property
    def delays_delivery(self) -> bool:
        """What could be delivered now has to wait for what is in line."""
        return bool(self.expected) or self._first > 0 or self.size > LINE_MESSAGES_MAX

    @property
    def head_has_to_wait(self) -> bool:
        """The disk is so far behind that even little that is to go at the head has to wait."""
        return self._batches.full and not self._head_makes_room

    def take_in(self, entries: Sequence[Entry], deal_with: DealWith, *, writes: bool, first: bool, ready: bool) -> None:
        """Deal with messages that came back: with few at once, if no others are in line. See `Returned`."""
        if self._batches.urgent:
            while entries:
                done = deal_with(entries)
                entries = entries[done:]
        elif not (self._line or (writes and self._batches.full)) and _are_few(entries, writes=writes):
            done = deal_with(entries)
            entries = entries[done:]
        if not entries:
            return
        for entry in entries:
            entry.consumer = None
        self._line.append(Returned(deque(entries), deal_with, writes, first, ready))
        self.size += len(entries)
        self._first += first * len(entries)
        self.begin()

    def begin(self) -> Future[None]:
        """Do a portion of what there is to do, if the disk is not behind, and the rest later; settled when all is done.

        The same while something is under way already.
        """
        if not self.working:
            self.working = True
            self._done = self._background_work.begin(until_done(self._step, self._ended), self._has_to_wait)
        return self._done

    def expect(self, back: Future[None]) -> None:
        """Messages come back, some in each turn, until `back` is settled: then they may be too many for the queue."""
        self.expected.append(back)
        back.then(self._came_back)

    def _came_back(self, back: Future[None]) -> None:
        self.expected.remove(back)
        if self._queue is not None and not self.expected:
            if self._queue.limits.on_length and not self.size:
                self._queue.limits.make_room_for_returned()
            self._queue.touch()

    def purge(self) -> list[Entry]:
        """Drop what is in line to be ready again. The rest are to be dead letters."""
        dropped = list[Entry]()
        for returned in self._line:
            if returned.ready:
                self._leave_line(returned, len(returned.entries))
                dropped += returned.entries
        self._line = [returned for returned in self._line if not returned.ready]
        return dropped

    def end(self) -> list[Entry]:
        """The queue is gone, and what is in line with it."""
        left = list(self.entries)
        self.size, self._first = 0, 0
        self._line.clear()
        self._queue = None
        return left

    def check(self) -> None:
        """Raise AssertionError unless what is in line is counted, with no consumer, and about to be dealt with."""
        entries = list(self.entries)
        assert len(entries) == self.size, f"{len(entries)} messages are in line, {self.size} are counted"
        first = sum(len(returned.entries) for returned in self._line if returned.first)
        assert first == self._first, f"{first} messages in line go out first, {self._first} are counted"
        assert len(set(map(id, entries))) == len(entries), "a message is in line twice"
        for entry in entries:
            assert entry.consumer is None, f"message {entry.position} has come back and is with a consumer"
        assert self.working or not entries, f"{len(entries)} messages that came back are not being dealt with"

    def _ended(self) -> None:
        self.working = False
        if self._queue is not None:
            self._queue.touch()

    def _step(self) -> int:
        """Do some of what is to be done, how much in bytes; 0 when nothing is left."""
        if self._queue is None:
            return 0
        return self._deal_with_some() if self._line else self._queue.limits.clear_some()

    def _deal_with_some(self) -> int:
        """Deal with a chunk of what is first in line, how much in bytes; one chunk's trouble is not the others'."""
        returned, copies = self._line[0], self._turn.dead_letter_copies
        chunk, size = list[Entry](), 0
        while returned.entries and (size := size + _cost(returned.entries[0], writes=returned.writes)) <= CHUNK_BYTES:
            chunk.append(returned.entries.popleft())
        if not chunk:  # one at least
            chunk.append(returned.entries.popleft())
        self._leave_line(returned, len(chunk))
        try:
            left = chunk[returned.deal_with(chunk) :]
        except Exception:
            log.exception("%d messages that came back could not be dealt with", len(chunk))
            left = []
        if left:
            self._leave_line(returned, -len(left))
            returned.entries.extendleft(reversed(left))
            size -= sum(_cost(entry, writes=returned.writes) for entry in left)
        if not returned.entries:
            del self._line[0]
        return max(size, MESSAGE_BYTES * (self._turn.dead_letter_copies - copies))

    def _leave_line(self, returned: Returned, count: int) -> None:
        self.size -= count
        self._first -= returned.first * count

    def _has_to_wait(self) -> bool:
        if self._queue is None or not self._batches.crowded:
            return False
        return self._line[0].writes if self._line else not self._head_makes_room

    @property
    def _head_makes_room(self) -> bool:
        """A full disk gets room by what is to go at the head: no dead letters are written in its place."""
        no_room, queue = self._batches.no_room, self._queue
        return no_room and queue is not None and queue.arguments.dead_letter_exchange is None


_NOTHING = Future.resolved(None)


def _cost(entry: Entry, *, writes: bool) -> int:
    return entry.size + MESSAGE_BYTES if writes else RETURN_BYTES


def _are_few(entries: Sequence[Entry], *, writes: bool) -> bool:
    least = len(entries) * (MESSAGE_BYTES if writes else RETURN_BYTES)
    if least > CHUNK_BYTES or not writes or len(entries) == 1:
        return least <= CHUNK_BYTES
    return least + sum(entry.size for entry in entries) <= CHUNK_BYTES
