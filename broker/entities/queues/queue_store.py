"""A queue's part of the message store: its puts, settlements, purges, reads and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from broker.entities.messages.message import BccMessage, Message, OriginQueue, QueuedMessage
from broker.entities.queues.ready_messages import MemoryWindow
from broker.entities.scheduling.pending_batches import PendingBatches
from broker.entities.statistics.counters import QueueCounters
from broker.wire.properties import body_size
from storage.batch import (
    BLIND,
    PERSISTENT,
    TRANSIENT_QUEUE,
    LaneState,
    LaneWrites,
    PeekedLane,
    Purge,
    StoredMessage,
    StreamHistory,
    WaitingMessage,
)

RECORD_BYTES: Final = 64
"""Bytes of a message on disk beside header and body, roughly: for limiting the size of batches."""


SETTLEMENT_BYTES: Final = 16
"""Bytes of a settlement on disk, roughly."""


class StreamSource(Protocol):
    """The streams of the message store."""

    def history(self, queue_id: int, lane: int) -> StreamHistory:
        """Return a stream's closed segments, and its last message."""

    def find(self, queue_id: int, lane: int, time: int, first: int, end: int) -> int:
        """Return the first position in [first, end) whose message is not older than `time`; else `end`."""


class PeekSource(Protocol):
    """Looks at the lanes of the message store."""

    def lane(self, queue_id: int, lane: int, after: int, before: int, skip: int = 0) -> PeekedLane:
        """Return a look at the live messages between two positions, exclusive, without the first `skip` of them."""


class MessageSource(Protocol):
    """The message store, as queues read it."""

    def read(
        self, queue_id: int, lane: int, after: int, before: int, max_messages: int, max_bytes: int
    ) -> list[StoredMessage]:
        """Return the stored live messages between two positions, exclusive, in ascending order."""

    @property
    def streams(self) -> StreamSource:
        """Reads that only streams need."""

    @property
    def peeks(self) -> PeekSource:
        """Looks, which any thread may take and which change nothing."""

    def fetch(self, queue_id: int, lane: int, positions: Sequence[int]) -> list[StoredMessage]:
        """Return the messages stored at these ascending positions; those not found are left out."""

    def waiting(self, queue_id: int, lane: int, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """Return due times of about `max_messages` delayed messages between two positions, in ascending order."""


class StorePlace(NamedTuple):
    """A queue's place in the message store: its id, its counters, and the states of its lanes at the start."""

    batches: PendingBatches
    source: MessageSource
    queue_id: int
    counters: QueueCounters
    states: Mapping[int, LaneState] = MappingProxyType({})


class QueueStore:
    """One lane: a sequence of a queue's messages on disk. Each priority has a lane of its own."""

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

    def put(self, entry: QueuedMessage, *, durable: bool) -> None:
        """Put a message into the open batch; a `durable` one survives a restart."""
        message = entry.message
        assert message is not None, "a message without content cannot be written"
        self._open().puts[entry.position] = (message, entry.expires_at)
        self._batches.current.bytes += entry.size + len(message.header) + RECORD_BYTES
        entry.stored = True
        if durable:
            entry.persistent = True
            self.state.messages += 1
            self.state.bytes += entry.size

    def put_all(self, entries: Sequence[QueuedMessage], *, durable: bool) -> None:
        """Put messages into the open batch, as `put` does with one."""
        puts, size, overhead = self._open().puts, 0, len(entries) * RECORD_BYTES
        for entry in entries:
            message = entry.message
            assert message is not None, "a message without content cannot be written"
            puts[entry.position] = (message, entry.expires_at)
            entry.stored = True
            entry.persistent = durable
            size += entry.size
            overhead += len(message.header)
        self._batches.current.bytes += size + overhead
        if durable:
            self.state.messages += len(entries)
            self.state.bytes += size

    def settle(self, entries: Sequence[QueuedMessage], *, moved: bool = False) -> None:
        """Settle messages. Those whose put is in the open batch are taken out of it and never written.

        `moved`: the open batch has a put in their place, so a full disk must not store these settlements alone.
        """
        if not entries:
            return
        writes, state = self._open(), self.state
        # In a transaction nothing may be settled on disk without its puts.
        moved = moved or self._batches.urgent
        unwritten, settled, messages, size = writes.puts.pop, writes.settled, 0, 0
        self._batches.current.bytes += len(entries) * SETTLEMENT_BYTES
        for entry in entries:
            position, persistent = entry.position, entry.persistent
            if unwritten(position, None) is None:  # its put is in an earlier batch, so that needs a settlement
                if moved:
                    writes.moved[position] = entry.size if persistent else -1
                else:
                    settled.append(position)
            if persistent:  # the counts are of what survives a restart
                messages += 1
                size += entry.size
        state.messages -= messages
        state.bytes -= size

    def delivered(self, entries: Sequence[QueuedMessage]) -> None:
        """Raise the delivered mark: after a restart these messages, and all before them, have the redelivered flag."""
        for entry in reversed(entries):
            if entry.persistent:
                if entry.position > self.state.delivered_up_to:
                    self.state.delivered_up_to = entry.position
                    self._open()
                break

    def purge(self, floor: int, survivors: Iterable[QueuedMessage]) -> None:
        """Drop all messages below position `floor` except `survivors`, the unacknowledged ones."""
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
        # The purge covers what is stored; puts of the open batch are simply not written.
        writes, kept = self._open(), set(positions)
        writes.puts = {position: put for position, put in writes.puts.items() if position in kept}
        self._batches.current.purges.append(Purge(self.queue_id, self.number, floor, tuple(sorted(positions))))

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """Subtract records of this lane that could not be read, and were set aside. `number` is this lane's."""
        self.state.messages = max(0, self.state.messages - messages)
        self.state.bytes = max(0, self.state.bytes - size_bytes)

    def drop(self) -> None:
        """Have the records of a deleted queue reclaimed.

        A durable queue without records is passed on too: its tombstone stays until the store reports it cleared.
        """
        if self.used or self.queue_id < TRANSIENT_QUEUE:
            self._batches.current.deleted_queues.append(self.queue_id)

    def restore(self) -> Mapping[int, QueueStore]:
        """Take up a lane that is on disk at a start. Messages up to the delivered mark are redelivered."""
        self.used = True
        self.redelivered_up_to = self.state.delivered_up_to
        return {self.number: self}

    def read(self, queue: OriginQueue, after: int, before: int, window: MemoryWindow) -> list[QueuedMessage]:
        """Return stored messages of a queue between two positions, at most half a window."""
        messages, size_bytes = max(1, window.messages // 2), max(1, window.bytes // 2)
        found = self._source.read(self.queue_id, self.number, after, before, messages, size_bytes)
        self.counters.read(len(found))
        return [self._entry(queue, stored) for stored in found]

    def peek(self, after: int, before: int, skip: int = 0) -> PeekedLane:
        """Return a look at the stored messages between two positions, exclusive, without the first `skip`.

        Any thread may take it, in steps. It counts no reads.
        """
        return self._source.peeks.lane(self.queue_id, self.number, after, before, skip)

    def peeked(self, queue: OriginQueue, stored: StoredMessage) -> QueuedMessage:
        """Return what a look has found as the queue would read it back; its body may be cut."""
        entry = self._entry(queue, stored)
        entry.size = body_size(stored.header)
        return entry

    def lane(self, number: int) -> QueueStore:
        """Return the lane of a level: it is the only one."""
        return self

    def load(self, entries: Iterable[QueuedMessage]) -> None:
        """Read the content of messages back into memory; unreadable ones stay without."""
        wanted = {entry.position: entry for entry in entries}
        if not wanted:
            return
        found = self._source.fetch(self.queue_id, self.number, sorted(wanted))
        self.counters.read(len(found))
        for stored in found:
            self._fill(wanted[stored.position], stored)

    def _fill(self, entry: QueuedMessage, stored: StoredMessage) -> None:
        """Give a message its content."""
        entry.message = _message(stored)

    def waiting(self, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """Return due times of about `max_messages` delayed messages between two positions, ascending in position."""
        return self._source.waiting(self.queue_id, self.number, after, before, max_messages)

    def check(self, entries: Sequence[QueuedMessage], *, complete: bool) -> None:
        """Raise AssertionError unless the lane's counts agree with the queue's persistent messages.

        `entries`: the messages in memory; unless `complete` there may be others on disk.
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

    def _entry(self, queue: OriginQueue, stored: StoredMessage) -> QueuedMessage:
        position, flags, _count, expires_at, _route, _header, body, _id = stored
        entry = QueuedMessage(queue, position, _message(stored), len(body), expires_at)
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
    message = BccMessage.restored(route, header, body, flags) if flags & BLIND else Message(route, header, body, flags)
    message.body_id = body_id
    return message
