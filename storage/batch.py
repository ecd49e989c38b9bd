"""Batches: all that the queues hand to the message store, and the records that they read back.

A batch has three states. While it is *open*, queues put messages into it and take them out again (a message
acknowledged before it was written is never written). `WriteBatch.seal` turns it into an immutable
`SealedBatch`, which is *in flight* until the store has committed it; from then on its messages are *stored*.
An acknowledgement that arrives after the seal is a settlement in the next batch. The thread that commits
reads sealed batches only, never a live object.

Positions order a queue's messages. A position is `boot << 40 | counter`: the boot number is synced before the
broker listens, so a position handed out before a crash is never handed out again. Gaps are normal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

COUNTER_BITS: Final = 40
"""Low bits of a position (or of a body id) that count within one boot."""

OFFSET_STRIDE: Final = 1 << 31
"""A stream of a restored backup skips at least this many offsets; nothing else skips as many."""

TRANSIENT_QUEUE: Final = 1 << 63
"""Queue ids from here up belong to queues that end with the process; the store drops their records at start."""

PERSISTENT: Final = 1
"""Record flag: the message survives a restart. Without it the record is paged-out overflow and ends with its boot."""

BLIND: Final = 2
"""Record flag: the keys of a BCC header follow the header. The store keeps both as they are."""

DELAYED: Final = 4
"""Record flag: a delayed message. The time put with it is when it is due; when it expires is in its record."""


class MessageRecord:
    """A message as the store sees it: never changed once it has been put into a batch.

    `route`: exchange and routing key, as two AMQP short strings. `header`: the content header's payload, as received.
    `body_id` 0: the body is stored with the record. Otherwise it is stored once under this number, for several queues.
    All kinds of records derive from this class and not from a protocol: the compiled core reads attributes of a class
    without looking them up by name.
    """

    __slots__ = ("body", "body_id", "flags", "header", "route")

    def __init__(self, route: bytes, header: bytes, body: bytes, flags: int, body_id: int = 0) -> None:
        self.route = route
        self.header = header
        self.body = body
        self.flags = flags
        self.body_id = body_id

    @property
    def stored_header(self) -> bytes:
        """Header and BCC keys: stored in place of the header if BLIND is among the flags."""
        return self.header

    @property
    def expires_at(self) -> int:
        """With DELAYED, when the message expires, in wall-clock milliseconds; 0: never. Without, 0."""
        return 0


Put = tuple[MessageRecord, int]
"""A record and a time in wall-clock milliseconds: its expiry in this queue (0: never); in a stream, its time of
publishing; with DELAYED, the time at which it is due."""


class LaneState:
    """The counters of one lane of a queue, so that a start reads no messages.

    `messages` and `bytes` count the persistent messages that are neither settled nor purged, delivered ones
    included. `delivered_up_to` is the highest position ever handed to a consumer: a restart marks messages up to it
    as redelivered. In a stream it is the position of the next message to be appended.
    Everything below `floor` has been purged, except the survivors that the purge named.
    """

    __slots__ = ("bytes", "delivered_up_to", "floor", "messages")

    def __init__(self, messages: int = 0, bytes: int = 0, delivered_up_to: int = 0, floor: int = 0) -> None:
        self.messages = messages
        self.bytes = bytes
        self.delivered_up_to = delivered_up_to
        self.floor = floor

    def snapshot(self) -> LaneCounters:
        """Return the present values, none below 0.

        When a bitmap is damaged while the store is open, messages come back that are not counted.
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
    """The writes of one lane of one queue in the open batch.

    `puts` maps positions, ascending, to records; `puts.pop(position)` takes one out again.
    `settled` lists positions of earlier batches that have left the queue. `moved` has those that left because a dead
    letter was put in their place, with the bytes that the lane counted for each, -1 if it did not count the message:
    they are removed together with that put, never before. `deliveries` has delivery counts by position, of messages of
    this batch or earlier ones, for queues that count deliveries.
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
        """Return the lane's writes as they are now, and clear them: the queue may not write again for long."""
        assert not self.sealed, f"lane {lane} of queue {queue_id} is sealed already"
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
    """Answers a client once a batch is on disk: a confirm ledger, a transaction, a definition."""

    def stored(self, batch: int) -> None:
        """Note that batch `batch`, and every batch before it, is on disk."""


class SealedLane(NamedTuple):
    """One lane's share of a sealed batch."""

    queue_id: int
    lane: int
    puts: tuple[tuple[int, Put], ...]
    settled: tuple[int, ...]
    counters: LaneCounters
    deliveries: tuple[tuple[int, int], ...] = ()
    """Positions and delivery counts."""
    moved: tuple[tuple[int, int], ...] = ()
    """Positions and the bytes that the lane counted for each: see `LaneWrites`."""

    @property
    def finished(self) -> Sequence[int]:
        """All positions that have left the queue: settled and moved."""
        return (*self.settled, *(position for position, _size in self.moved)) if self.moved else self.settled


class Purge(NamedTuple):
    """Declares everything of a lane below `floor` dead, except `survivors`: positions still unacknowledged."""

    queue_id: int
    lane: int
    floor: int
    survivors: tuple[int, ...]


class ClosedStreamSegment(NamedTuple):
    """A complete segment of a stream: retention removes it as a whole.

    `first` and `end` are positions; `end` is the first of the next segment. `bytes` counts bodies; `last_time` is when
    its last message was published, in wall-clock milliseconds.
    """

    queue_id: int
    lane: int
    first: int
    end: int
    bytes: int
    last_time: int


class SealedBatch(NamedTuple):
    """An immutable batch, which the store commits in one transaction."""

    number: int
    lanes: tuple[SealedLane, ...]
    purges: tuple[Purge, ...]
    deleted_queues: tuple[int, ...]
    """Queues whose records are dead from this batch on, and are removed in bounded steps."""
    waiters: tuple[Waiter, ...]
    closed_segments: tuple[ClosedStreamSegment, ...] = ()
    last_event: int = 0
    """Number of the last event recorded before the batch was sealed; 0 without an event log."""
    removal_waiters: tuple[Waiter, ...] = ()
    """Waiters for the removals of the batch alone."""
    bytes: int = 0
    """Approximate bytes of its puts."""

    @property
    def empty(self) -> bool:
        """True if it has neither writes nor waiters."""
        return not any(self[1:])

    @property
    def put_bytes(self) -> int:
        """Approximate bytes of its puts; a body that several queues share counts once."""
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
        """The waiters; False for those that wait for the removals of the batch alone."""
        self.purges: list[Purge] = []
        self.deleted_queues: list[int] = []
        self.closed_segments: list[ClosedStreamSegment] = []
        self._lanes: dict[tuple[int, int], LaneWrites] = {}

    def lane(self, queue_id: int, lane: int, state: LaneState) -> LaneWrites:
        """Return the writes of one lane of a queue; the lane's counters go to disk with this batch."""
        writes = self._lanes.get((queue_id, lane))
        if writes is None:
            writes = self._lanes[(queue_id, lane)] = LaneWrites(state)
        return writes

    @property
    def empty(self) -> bool:
        """True if it has neither writes nor waiters."""
        return not (self._lanes or self.waiters or self.purges or self.deleted_queues)

    def seal(self, last_event: int = 0) -> SealedBatch:
        """Return the batch as it is now, immutable. Later settlements of its messages belong to the next one."""
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
    """The closed segments of a stream in the store, and position and time of its last message, if any."""

    closed: tuple[ClosedStreamSegment, ...]
    last: tuple[int, int] | None


class WaitingMessage(NamedTuple):
    """A delayed message in the store: position, due time, bytes of its body."""

    position: int
    due_at: int
    """Wall-clock milliseconds."""
    size: int


class StoredMessage(NamedTuple):
    """A message read back from the store."""

    position: int
    flags: int
    delivery_count: int
    """Deliveries so far, as counted by its queue."""
    expires_at: int
    """Wall-clock milliseconds, 0: never. In a stream: when it was published."""
    route: bytes
    header: bytes
    body: bytes
    body_id: int


class PeekLimits(NamedTuple):
    """Limits of one step of a look at stored messages, and the messages that are wanted."""

    messages: int
    """Messages to return."""
    looked_at: int
    """Messages to look at."""
    size_bytes: int
    """Bytes of headers and bodies after which no further message is returned."""
    body_bytes: int
    """Bytes of each body; the rest is cut off."""
    wants: Callable[[int, bytes, bytes], bool] | None = None
    """Returns True for a wanted message, by its flags, route and stored header, which may be damaged; None: all are."""


class PeekedLane(Protocol):
    """A look at a part of a lane, in steps, by one thread at a time: `LanePeek` of the message store."""

    passed: int
    unreadable: int
    reached: int
    done: bool

    def step(self, limits: PeekLimits) -> list[tuple[int, StoredMessage]]:
        """Read on; return wanted messages with their numbers, which count from 0."""

    def at(self, positions: Sequence[int], limits: PeekLimits) -> list[StoredMessage]:
        """Return the wanted ones of the messages at these positions."""


_BOTH, _UNCOUNTED_BITS = 1 << 31, (1 << 15) - 1
_COUNTED_MAX, _UNCOUNTED_MAX, _UNCOUNTED_MIN = (1 << 16) - 1, (1 << 14) - 1, -(1 << 14)
"""Numbers beyond are stored as these: the limit is far below them, and the others are for people to read."""


class DeliveryCounts(NamedTuple):
    """Deliveries that count for the delivery limit, and those that do not.

    Stored in 32 bits. A plain number counts deliveries. With the highest bit set it is two numbers: RabbitMQ 4.3 does
    not count deliveries for the limit that were returned by basic.nack or basic.recover, and shows both numbers. A dead
    letter that was delivered elsewhere before has more counted than there are in its queue: `uncounted` is negative.
    """

    counted: int
    uncounted: int = 0

    @property
    def all(self) -> int:
        """All deliveries in this queue."""
        return self.counted + self.uncounted

    def packed(self) -> int:
        """Return the number that is stored."""
        if not self.uncounted:
            return self.counted
        uncounted = min(max(self.uncounted, _UNCOUNTED_MIN), _UNCOUNTED_MAX) & _UNCOUNTED_BITS
        return _BOTH | uncounted << 16 | min(self.counted, _COUNTED_MAX)


def unpacked_counts(stored: int) -> DeliveryCounts:
    """Return the counts of a stored number."""
    if not stored & _BOTH:
        return DeliveryCounts(stored)
    uncounted = stored >> 16 & _UNCOUNTED_BITS
    return DeliveryCounts(stored & _COUNTED_MAX, uncounted - (_UNCOUNTED_BITS + 1 if uncounted > _UNCOUNTED_MAX else 0))
