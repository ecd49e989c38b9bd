"""What crosses from the queues to the message store: one batch of writes at a time.

A batch has three states. While it is *open*, queues put messages into it and take them out again (a message
acknowledged before it was written is never written). `WriteBatch.seal` turns it into an immutable
`SealedBatch`, which is *in flight* until the store has committed it; from then on its messages are *stored*.
An acknowledgement that arrives after the seal is a settlement in the next batch. The thread that commits
reads sealed batches only, never a live object.

Positions order a queue's messages. A position is `boot << 40 | counter`: the boot number is synced before the
broker listens, so a position handed out before a crash is never handed out again. Gaps are normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

COUNTER_BITS: Final = 40
"""How many low bits of a position (or of a body id) count within one boot."""

OFFSET_STRIDE: Final = 1 << 31
"""A stream of a restored backup leaves out as many offsets at least; nothing else leaves out as many."""

TRANSIENT_QUEUE: Final = 1 << 63
"""Queue ids from here up belong to queues that end with the process; the store drops their records at start."""

PERSISTENT: Final = 1
"""Record flag: the message survives a restart. Without it the record is overflow and ends with its boot."""


BLIND: Final = 2
"""Record flag: behind the header are BCC keys. The store keeps them with it and does not look."""

DELAYED: Final = 4
"""Record flag: the message waits for its time. What is put with it is when it is due, not when it expires."""


class MessageRecord(Protocol):
    """A message as the store sees it: never changed once it has been put into a batch."""

    flags: int
    route: bytes
    """Exchange and routing key, as two AMQP short strings."""
    header: bytes
    """The content header's payload, as it came."""
    body: bytes
    body_id: int
    """0: the body is stored with the record. Otherwise it is stored once under this number, for several queues."""

    @property
    def stored_header(self) -> bytes:
        """What is stored in place of the header if BLIND is among the flags."""


Put = tuple[MessageRecord, int]
"""A record and a time in wall-clock milliseconds: when it expires in this queue (0: never), or, in a stream, when it
was published, or, with DELAYED, when it is due."""


class LaneState:
    """The counters of one lane of a queue: what a start needs to know without reading messages.

    `messages` and `bytes` count the persistent messages that are neither settled nor purged, delivered ones
    included. `delivered_up_to` is the highest position ever handed to a consumer, so that a restart knows
    what is redelivered; of a stream, it is the position of the next message to be appended.
    Everything below `floor` has been purged, save the survivors that the purge named.
    """

    __slots__ = ("bytes", "delivered_up_to", "floor", "messages")

    def __init__(self, messages: int = 0, bytes: int = 0, delivered_up_to: int = 0, floor: int = 0) -> None:
        self.messages = messages
        self.bytes = bytes
        self.delivered_up_to = delivered_up_to
        self.floor = floor

    def snapshot(self) -> LaneCounters:
        """The values of this moment.

        Never below 0: when a bitmap is damaged while the store is open, messages come back that are not counted.
        """
        self.messages, self.bytes = max(0, self.messages), max(0, self.bytes)
        return LaneCounters(self.messages, self.bytes, self.delivered_up_to, self.floor)


class LaneCounters(NamedTuple):
    """A lane's counters as they stood when a batch was sealed."""

    messages: int
    bytes: int
    delivered_up_to: int
    floor: int


class LaneWrites:
    """What one lane of one queue wants written with the open batch.

    `puts` maps positions, ascending, to records; taking one out again is `puts.pop(position)`.
    `settled` lists positions written earlier that are finished with. `moved` has those that are finished with because
    something was put in their place (a dead letter), and the bytes that the lane counted for each, -1 where it did not
    count the message: they go with what was put, never before. `deliveries` says how often messages, written with this
    batch or earlier, have been handed out, for queues that count that.
    """

    __slots__ = ("deliveries", "moved", "puts", "sealed", "settled", "state")

    def __init__(self, state: LaneState) -> None:
        self.puts: dict[int, Put] = {}
        self.settled: list[int] = []
        self.moved: dict[int, int] = {}
        self.deliveries: dict[int, int] = {}
        self.state = state
        self.sealed = False

    def seal(self, queue_id: int, lane: int) -> SealedLane:
        """What is to be written, for good. Nothing of it is kept here: its queue may not write again for long."""
        sealed = SealedLane(
            queue_id,
            lane,
            tuple(self.puts.items()),
            tuple(self.settled),
            self.state.snapshot(),
            tuple(self.deliveries.items()),
            tuple(self.moved.items()),
        )
        self.sealed = True
        for gathered in (self.puts, self.settled, self.deliveries, self.moved):
            gathered.clear()
        return sealed


class Waiter(Protocol):
    """Something that answers a client once a batch is on disk: a confirm ledger, a transaction, a definition."""

    def stored(self, batch: int) -> None:
        """Batch `batch`, and every one before it, is on disk."""


class SealedLane(NamedTuple):
    """One lane's share of a sealed batch."""

    queue_id: int
    lane: int
    puts: tuple[tuple[int, Put], ...]
    settled: tuple[int, ...]
    counters: LaneCounters
    deliveries: tuple[tuple[int, int], ...] = ()
    """Positions, and how often the message there has been handed out."""
    moved: tuple[tuple[int, int], ...] = ()
    """Positions, and what the lane counted for them: see `LaneWrites`."""

    @property
    def finished(self) -> Sequence[int]:
        """Every position that is finished with."""
        return (*self.settled, *(position for position, _size in self.moved)) if self.moved else self.settled


class Purge(NamedTuple):
    """Everything of a lane below `floor` is dead, save `survivors` (positions still unacknowledged)."""

    queue_id: int
    lane: int
    floor: int
    survivors: tuple[int, ...]


class ClosedStreamSegment(NamedTuple):
    """A part of a stream that nothing is added to any more, and that goes as a whole when the stream is too long.

    `first` and `end` are positions, `end` is the next part's first. `bytes` counts bodies; `last_time` is when its
    last message was published, in wall-clock milliseconds.
    """

    queue_id: int
    lane: int
    first: int
    end: int
    bytes: int
    last_time: int


class SealedBatch(NamedTuple):
    """A batch that nothing changes any more; what the store commits in one transaction."""

    number: int
    lanes: tuple[SealedLane, ...]
    purges: tuple[Purge, ...]
    deleted_queues: tuple[int, ...]
    """Queues whose records are to be reclaimed, in bounded steps, from this batch on."""
    waiters: tuple[Waiter, ...]
    closed_segments: tuple[ClosedStreamSegment, ...] = ()
    last_event: int = 0
    """The number of the last event that was recorded before the batch was sealed; 0 where none are."""
    removal_waiters: tuple[Waiter, ...] = ()
    """Waiters only for what the batch takes away."""
    bytes: int = 0
    """About how much it brings."""

    @property
    def empty(self) -> bool:
        """There is nothing in it, and it has no waiters."""
        return not any(self[1:])

    @property
    def put_bytes(self) -> int:
        """What it puts, roughly; bodies that several queues share count once."""
        own = 0
        bodies: dict[int, int] = {}
        for lane in self.lanes:
            for _position, (record, _time) in lane.puts:
                own += len(record.header) + (0 if record.body_id else len(record.body))
                if record.body_id:
                    bodies[record.body_id] = len(record.body)
        return own + sum(bodies.values())


class WriteBatch:
    """The open batch. `waiters` are notified when it is on disk; without a waiter its commit may be delayed."""

    __slots__ = (
        "_lanes",
        "bytes",
        "closed_segments",
        "deleted_queues",
        "number",
        "purges",
        "waiters",
    )

    def __init__(self, number: int) -> None:
        self.number = number
        self.bytes = 0
        self.waiters: dict[Waiter, bool] = {}
        """The waiters; False for those that wait only for what the batch takes away."""
        self.purges: list[Purge] = []
        self.deleted_queues: list[int] = []
        self.closed_segments: list[ClosedStreamSegment] = []
        self._lanes: dict[tuple[int, int], LaneWrites] = {}

    def lane(self, queue_id: int, lane: int, state: LaneState) -> LaneWrites:
        """Open one lane of a queue for writing; its counters go to disk with this batch."""
        writes = self._lanes.get((queue_id, lane))
        if writes is None:
            writes = self._lanes[(queue_id, lane)] = LaneWrites(state)
        return writes

    @property
    def empty(self) -> bool:
        """Nothing to write, and no waiter."""
        return not (self._lanes or self.waiters or self.purges or self.deleted_queues)

    def seal(self, last_event: int = 0) -> SealedBatch:
        """Freeze the batch as it is now. Later settlements of its messages belong to the next one."""
        return SealedBatch(
            self.number,
            tuple(writes.seal(queue_id, lane) for (queue_id, lane), writes in self._lanes.items()),
            tuple(self.purges),
            tuple(self.deleted_queues),
            tuple(waiter for waiter, for_all in self.waiters.items() if for_all),
            tuple(self.closed_segments),
            last_event,
            tuple(waiter for waiter, for_all in self.waiters.items() if not for_all),
            self.bytes,
        )


class StreamHistory(NamedTuple):
    """What the store holds of a stream: its closed segments, and its last message's position and time, if any."""

    closed: tuple[ClosedStreamSegment, ...]
    last: tuple[int, int] | None


class WaitingMessage(NamedTuple):
    """A delayed message's line in the store: where it is, when it is due, how large its body is."""

    position: int
    due_at: int
    """Wall-clock milliseconds."""
    size: int


class StoredMessage(NamedTuple):
    """A message read back from the store."""

    position: int
    flags: int
    delivery_count: int
    """How often it has been handed out, as far as its queue has said."""
    expires_at: int
    """Wall-clock milliseconds, 0: never. Of a stream's message: when it was published."""
    route: bytes
    header: bytes
    body: bytes
    body_id: int
