"""A queue's share of the message store: what it puts there, settles there and counts there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from broker.entities.messages.message import BlindlyCopied, Entry, Holder, Message
from broker.entities.queues.batch_queue import BatchQueue
from broker.entities.queues.ready_messages import Window
from broker.entities.statistics.counters import QueueCounters
from storage.batch import (
    BLIND,
    PERSISTENT,
    TRANSIENT_QUEUE,
    LaneState,
    LaneWrites,
    Purge,
    StoredMessage,
    StreamHistory,
    WaitingMessage,
)

RECORD_BYTES: Final = 64
"""What a message costs on disk beside its parts, roughly: for keeping batches within their size."""


SETTLEMENT_BYTES: Final = 16
"""What a settlement costs on disk, roughly."""


class StreamSource(Protocol):
    """The streams of the message store."""

    def history(self, queue_id: int, lane: int) -> StreamHistory:
        """A stream's closed segments, and its last message."""

    def find(self, queue_id: int, lane: int, time: int, first: int, end: int) -> int:
        """The first position from `first` on, and before `end`, whose message is not older than a time; else `end`."""


class MessageSource(Protocol):
    """The message store, as far as queues read it."""

    def read(
        self, queue_id: int, lane: int, after: int, before: int, max_messages: int, max_bytes: int
    ) -> list[StoredMessage]:
        """Stored live messages between two positions, ascending."""

    @property
    def streams(self) -> StreamSource:
        """What only streams ask of it."""

    def fetch(self, queue_id: int, lane: int, positions: Sequence[int]) -> list[StoredMessage]:
        """The messages stored at these positions, ascending; those not found are missing from the answer."""

    def waiting(self, queue_id: int, lane: int, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """When stored delayed messages between two positions are due, ascending in position; about so many."""


class StorePlace(NamedTuple):
    """A queue's place in the message store: its number there, what counts it, and how its lanes stood at the start."""

    batches: BatchQueue
    source: MessageSource
    queue_id: int
    counters: QueueCounters
    states: Mapping[int, LaneState] = MappingProxyType({})


class QueueStore:
    """One ordered run of a queue's messages on disk. Priorities have a lane each."""

    __slots__ = (
        "_batches",
        "_source",
        "_writes",
        "counters",
        "number",
        "queue_id",
        "redelivered_up_to",
        "state",
        "used",
    )

    def __init__(self, place: StorePlace, number: int = 0) -> None:
        self._batches = place.batches
        self._source = place.source
        self._writes: LaneWrites | None = None
        self.queue_id = place.queue_id
        self.counters = place.counters
        self.number = number
        self.state = place.states.get(number) or LaneState()
        self.redelivered_up_to = 0
        self.used = False

    def put(self, entry: Entry, *, durable: bool) -> None:
        """Have a message written with the open batch, to survive a restart if it is `durable`."""
        message = entry.message
        assert message is not None, "only what is in memory can be written"
        self._open().puts[entry.position] = (message, entry.expires_at)
        self._batches.current.bytes += entry.size + len(message.header) + RECORD_BYTES
        entry.stored = True
        if durable:
            entry.persistent = True
            self.state.messages += 1
            self.state.bytes += entry.size

    def put_all(self, entries: Sequence[Entry], *, durable: bool) -> None:
        """Have a run of messages written, as `put` does with one."""
        puts, size, overhead = self._open().puts, 0, len(entries) * RECORD_BYTES
        for entry in entries:
            message = entry.message
            assert message is not None, "only what is in memory can be written"
            puts[entry.position] = (message, entry.expires_at)
            entry.stored = True
            entry.persistent = durable
            size += entry.size
            overhead += len(message.header)
        self._batches.current.bytes += size + overhead
        if durable:
            self.state.messages += len(entries)
            self.state.bytes += size

    def settle(self, entries: Sequence[Entry], *, moved: bool = False) -> None:
        """Messages are finished with. Those that were not written yet never will be.

        With `moved` something was put in their place with the open batch: the one is not stored without the other.
        """
        if not entries:
            return
        writes, state = self._open(), self.state
        moved = moved or self._batches.urgent
        unwritten, settled, messages, size = writes.puts.pop, writes.settled, 0, 0
        self._batches.current.bytes += len(entries) * SETTLEMENT_BYTES
        for entry in entries:
            position, persistent = entry.position, entry.persistent
            if unwritten(position, None) is None:
                if moved:
                    writes.moved[position] = entry.size if persistent else -1
                else:
                    settled.append(position)
            if persistent:
                messages += 1
                size += entry.size
        state.messages -= messages
        state.bytes -= size

    def delivered(self, entries: Sequence[Entry]) -> None:
        """A consumer has seen these messages, in order: after a restart they, and all before them, are redelivered."""
        for entry in reversed(entries):
            if entry.persistent:
                if entry.position > self.state.delivered_up_to:
                    self.state.delivered_up_to = entry.position
                    self._open()
                break

    def purge(self, floor: int, survivors: Iterable[Entry]) -> None:
        """Everything below `floor` is dead, save what is still out with consumers."""
        if not self.used:
            return
        positions, sizes = list[int](), list[int]()
        for entry in survivors:
            if entry.stored:
                positions.append(entry.position)
            if entry.persistent:
                sizes.append(entry.size)
        state = self.state
        state.messages, state.bytes, state.floor = len(sizes), sum(sizes), floor
        writes, kept = self._open(), set(positions)
        writes.puts = {position: put for position, put in writes.puts.items() if position in kept}
        self._batches.current.purges.append(Purge(self.queue_id, self.number, floor, tuple(sorted(positions))))

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """The store has set aside records of this lane, the queue's only one, that it could not read."""
        self.state.messages = max(0, self.state.messages - messages)
        self.state.bytes = max(0, self.state.bytes - size_bytes)

    def drop(self) -> None:
        """The queue is gone for good: its records are to be reclaimed.

        A durable one has none, perhaps, but the store is to say so: until then its definition leaves a tombstone.
        """
        if self.used or self.queue_id < TRANSIENT_QUEUE:
            self._batches.current.deleted_queues.append(self.queue_id)

    def restore(self) -> Mapping[int, QueueStore]:
        """The lane was there before this start: what had been delivered is redelivered. The lanes there are."""
        self.used = True
        self.redelivered_up_to = self.state.delivered_up_to
        return {self.number: self}

    def read(self, queue: Holder, after: int, before: int, window: Window) -> list[Entry]:
        """Stored messages of a queue between two positions, half a window of them."""
        messages, size_bytes = max(1, window.messages // 2), max(1, window.bytes // 2)
        found = self._source.read(self.queue_id, self.number, after, before, messages, size_bytes)
        self.counters.read(len(found))
        return [self._entry(queue, stored) for stored in found]

    def load(self, entries: Iterable[Entry]) -> None:
        """Read the content of messages back into memory; those that cannot be read stay without."""
        wanted = {entry.position: entry for entry in entries}
        if not wanted:
            return
        found = self._source.fetch(self.queue_id, self.number, sorted(wanted))
        self.counters.read(len(found))
        for stored in found:
            wanted[stored.position].message = _message(stored)

    def waiting(self, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """When delayed messages between two positions are due; about so many, and none when there are none."""
        return self._source.waiting(self.queue_id, self.number, after, before, max_messages)

    def check(self, entries: Sequence[Entry], *, complete: bool) -> None:
        """Raise AssertionError unless the lane counts the persistent ones of its queue's messages.

        `entries` are those in memory; without being `complete` there may be others on disk.
        """
        state, persistent = self.state, [entry for entry in entries if entry.persistent]
        assert state.messages >= 0, f"the store counts {state.messages} messages"
        assert state.bytes >= 0, f"the store counts {state.bytes} bytes"
        if complete:
            found, size = len(persistent), sum(entry.size for entry in persistent)
            assert state.messages == found, f"the store counts {state.messages} messages, there are {found}"
            assert state.bytes == size, f"the store counts {state.bytes} bytes of messages, there are {size}"
        for entry in persistent:
            assert entry.stored, f"message {entry.position} is persistent and was not given to the store"
        if self._writes is not None:
            dead = self._writes.puts.keys() & set(self._writes.settled)
            assert not dead, f"messages {sorted(dead)} are to be written and settled"

    def _entry(self, queue: Holder, stored: StoredMessage) -> Entry:
        position, flags, _count, expires_at, _route, _header, body, _id = stored
        entry = Entry(queue, position, _message(stored), len(body), expires_at)
        entry.stored = True
        entry.persistent = bool(flags & PERSISTENT) and queue.durable
        entry.redelivered = position <= self.redelivered_up_to
        return entry

    def _open(self) -> LaneWrites:
        writes = self._writes
        if writes is None or writes.sealed:
            writes = self._writes = self._batches.current.lane(self.queue_id, self.number, self.state)
            self.used = True
        return writes


def _message(stored: StoredMessage) -> Message:
    _position, flags, _count, _expires_at, route, header, body, body_id = stored
    message = (
        BlindlyCopied.restored(route, header, body, flags) if flags & BLIND else Message(route, header, body, flags)
    )
    message.body_id = body_id
    return message
