"""A quorum queue's part of the message store: a lane for each priority, and two of its own.

Messages of the default priority are in lane 0, where all messages of a quorum queue without priorities are. Lane 1 has
dead letters that no target has accepted yet. The lane of another priority is the priority plus 2. Behind them is the
lane of returned messages that are delayed: a level like a priority, but its messages are ready in the order of their
due times, before all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from broker.entities.arguments.quorum_priorities import DEFAULT, HIGHEST
from broker.entities.messages.message import Message, OriginQueue, QueuedMessage
from broker.entities.queues.priority_queue import PriorityStore
from broker.entities.queues.queue_store import QueueStore, StorePlace
from broker.entities.queues.quorum.quorum_entry import QuorumEntry
from storage.batch import DELAYED, DeliveryCounts, LaneState, MessageRecord, StoredMessage, unpacked_counts

MAIN_LANE, DEAD_LETTERS_LANE = 0, 1
RETRIES = HIGHEST + 1
"""The level of returned messages that are, or were, delayed."""

_AFTER_OWN_LANES = 2


def lane_of(level: int) -> int:
    """Return the lane of a level."""
    return MAIN_LANE if level == DEFAULT else level + _AFTER_OWN_LANES


def level_of(lane: int) -> int:
    """Return the level of a lane, which is not that of dead letters."""
    return DEFAULT if lane == MAIN_LANE else lane - _AFTER_OWN_LANES


class QuorumLane(QueueStore):
    """The messages of one level."""

    __slots__ = ()

    def count(self, entry: QueuedMessage) -> None:
        """Put a message's delivery counts into the open batch."""
        counts = DeliveryCounts(entry.deliveries - entry.uncounted, entry.uncounted)
        self._open().deliveries[entry.position] = counts.packed()

    def _entry(self, queue: OriginQueue, stored: StoredMessage) -> QueuedMessage:
        known = super()._entry(queue, stored)
        entry = QuorumEntry(queue, known.position, known.message, known.size, known.expires_at)
        entry.stored, entry.persistent, entry.level = known.stored, known.persistent, level_of(self.number)
        _restore_counts(entry, stored, known.redelivered)
        entry.redelivered = entry.deliveries > 0 or entry.uncounted < 0
        return entry


class RetryLane(QuorumLane):
    """Returned messages that are delayed. They stay in this lane when they are due, until they are settled."""

    __slots__ = ()

    def put_delayed(self, entry: QuorumEntry, due: int) -> None:
        """Put a message that is due at a time, and its delivery counts, into the open batch."""
        self.put(entry, durable=True)
        assert entry.message is not None, "it has been put"
        self._open().puts[entry.position] = DelayedRecord(entry.message, entry.expires_at), due
        self.count(entry)

    def _fill(self, entry: QueuedMessage, stored: StoredMessage) -> None:
        super()._fill(entry, stored)
        if entry.message is not None:
            entry.message.flags &= ~DELAYED
        if not entry.deliveries:  # it is a number in memory while it is delayed, and nothing else is known
            entry.expires_at = stored.expires_at
            _restore_counts(entry, stored, delivered=True)


class DelayedRecord(MessageRecord):
    """A delayed message as the store keeps it: the time that is put with it is when it is due."""

    __slots__ = ("_expires_at", "_message")

    def __init__(self, message: Message, expires_at: int) -> None:
        super().__init__(message.route, message.header, message.body, message.flags | DELAYED, message.body_id)
        self._message = message
        self._expires_at = expires_at

    @property
    def stored_header(self) -> bytes:
        """Header and BCC keys."""
        return self._message.stored_header

    @property
    def expires_at(self) -> int:
        """The time at which the message expires."""
        return self._expires_at


class QuorumStore(PriorityStore):
    """A quorum queue's part of the message store."""

    def __init__(self, place: StorePlace) -> None:
        super().__init__(place)
        self.dead_letters = QueueStore(place, DEAD_LETTERS_LANE)

    @property
    def retries(self) -> RetryLane:
        """The lane of delayed messages."""
        lane = self.lane(RETRIES)
        assert isinstance(lane, RetryLane), "made below"
        return lane

    @property
    def levels(self) -> Iterable[int]:
        """The levels that are or were in use."""
        return self._lanes

    @property
    def state(self) -> LaneState:
        """The counts of all lanes together, dead letters that wait included."""
        levels, dead_letters = super().state, self.dead_letters.state
        return LaneState(levels.messages + dead_letters.messages, levels.bytes + dead_letters.bytes)

    def count(self, entry: QueuedMessage) -> None:
        """Put a message's delivery counts into the open batch."""
        lane = self.lane(entry.level)
        assert isinstance(lane, QuorumLane), "made below"
        lane.count(entry)

    def check(self, entries: Sequence[QueuedMessage], *, complete: bool) -> None:
        """Raise AssertionError unless each lane's counts agree with its level: see `PriorityStore.check`.

        Some of the messages that were delayed are numbers, so the queue counts these.
        """
        super().check(entries, complete=complete and RETRIES not in self.levels)

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """Subtract records of one lane that could not be read, and were set aside."""
        lane = self.dead_letters if number == DEAD_LETTERS_LANE else self.lane(level_of(number))
        lane.lost(number, messages, size_bytes)

    def _stored_levels(self, states: Mapping[int, object]) -> Iterable[int]:
        return (level_of(number) for number in states if number != DEAD_LETTERS_LANE)

    def _new_lane(self, level: int) -> QueueStore:
        return (RetryLane if level == RETRIES else QuorumLane)(self._place, self._number(level))

    def _number(self, level: int) -> int:
        return lane_of(level)


def _restore_counts(entry: QueuedMessage, stored: StoredMessage, delivered: bool) -> None:
    counts = unpacked_counts(stored.delivery_count)
    assert isinstance(entry, QuorumEntry), "a message of a quorum queue"
    entry.deliveries, entry.uncounted, entry.read_back = max(counts.all, delivered), counts.uncounted, True
