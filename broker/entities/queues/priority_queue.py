"""Queues with `x-max-priority`: messages of higher priority first, in publish order within one priority.

Each priority in use is a level, with a `ReadyMessages` and a `QueueStore` of its own. Positions count through all
levels. The level is decided at the publish and kept in the `QueuedMessage`; on disk it is the number of the lane, so no
properties are read for it after a restart.

The head of the queue is the head of the highest level that is not empty. Expiry and length limits act there only, as in
RabbitMQ: expired messages of a lower level stay until they are first, and a queue over its length limit drops messages
of the highest priority first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from broker.entities.messages.message import Message, OriginQueue, QueuedMessage
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import QueueContext, QueueSpec, Roles
from broker.entities.queues.queue_store import QueueStore, StorePlace
from broker.entities.queues.ready_messages import Front, MemoryWindow, ReadBack, ReadyMessages
from broker.entities.queues.ready_section import ReadySection
from storage.batch import LaneState


class PriorityReadyMessages:
    """Ready messages, the highest level first.

    The levels in use share the queue's window equally. A head that was filled when fewer levels were in use is not
    cut, so memory holds at most a window times the harmonic number of the levels: 3 for 10 of them, 6 for all 256.
    """

    def __init__(
        self,
        window: MemoryWindow,
        read_back: Callable[[int], ReadBack],
        new_level: Callable[[MemoryWindow, ReadBack], ReadyMessages] = ReadyMessages,
    ) -> None:
        self._window = window
        self._read_back: Callable[[int], ReadBack] | None = read_back
        self._new_level = new_level
        self._levels: dict[int, ReadyMessages] = {}
        self._filled = 0  # bit n is set when level n may hold something

    def __len__(self) -> int:
        return sum(map(len, self.parts)) if self._filled else 0

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of all ready messages."""
        return sum(level.bytes for level in self.parts)

    @property
    def in_memory(self) -> MemoryWindow:
        """Number of ready messages in memory, and bytes of their bodies."""
        parts = [level.in_memory for level in self.parts]
        return MemoryWindow(sum(part.messages for part in parts), sum(part.bytes for part in parts))

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message, if it is in memory."""
        level = next((level for level in self.parts if len(level)), None)
        return None if level is None else level.head

    @property
    def fronts(self) -> Sequence[Front]:
        """The parts of which the first message may expire: that is the first of all, as in RabbitMQ."""
        return (self,)

    @property
    def paging(self) -> bool:
        """Some level has paged messages, or puts all its messages into the store."""
        return any(level.paging for level in self._levels.values())

    def level(self, number: int) -> ReadyMessages:
        """Return the ready messages of one priority; a new one from then on shares the window."""
        level = self._levels.get(number)
        if level is None:
            assert self._read_back is not None, "a deleted queue gets no new priority"
            level = self._levels[number] = self._new_level(self._window, self._read_back(number))
            share = self._window.share(len(self._levels))
            for sharer in self._levels.values():
                sharer.window = share
        return level

    def append(self, entry: QueuedMessage) -> None:
        """Add a published message."""
        self.level(entry.level).append(entry)
        self._filled |= 1 << entry.level

    def restore(self, messages: int, size_bytes: int, number: int = 0) -> None:
        """Take up the messages of one priority that are on disk at a start."""
        self.level(number).restore(messages, size_bytes)
        self._filled |= 1 << number

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put returned messages back in order."""
        for number, members in _by_level(entries).items():
            self.level(number).give_back(members)
            self._filled |= 1 << number

    def put_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put the first messages, which were taken, back to where they were."""
        self.give_back(entries)

    def peek(self) -> QueuedMessage | None:
        """Return the first ready message and leave it; None without one. May read from disk."""
        while self._filled:
            number = self._filled.bit_length() - 1
            entry = self._levels[number].peek()
            if entry is not None:
                return entry
            self._filled ^= 1 << number
        return None

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message; None without one. Its content may be on disk only."""
        entry = self.peek()
        return None if entry is None else self._levels[entry.level].pop()

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages of the highest level: see `ReadyMessages.run`."""
        first = self.peek()
        return [] if first is None else self._levels[first.level].run(messages, size_bytes, now)

    def due(self, now: int, size_bytes: int) -> list[QueuedMessage]:
        """Take the first expired messages of the highest level: see `ReadyMessages.due`."""
        first = self.peek()
        return [] if first is None else self._levels[first.level].due(now, size_bytes)

    def next_returned(self, limit: int) -> list[QueuedMessage]:
        """Return the first `limit` returned messages of the highest level and leave them."""
        first = self.peek()
        return [] if first is None else self._levels[first.level].next_returned(limit)

    def look(self, section: ReadySection) -> None:
        """Add all messages to a section, in order: see `ReadyMessages.look`."""
        for number in self.filled:
            self._levels[number].look(section, number)

    def stored(self, up_to: int, number: int = 0) -> None:
        """Page the messages of one priority up to a position that is on disk: see `ReadyMessages.stored`."""
        self.level(number).stored(up_to)

    def clear(self) -> int:
        """Drop every ready message; return their number."""
        self._filled = 0
        return sum(level.clear() for level in self._levels.values())

    def end(self) -> int:
        """Drop every ready message, and the reference to the queue; return their number."""
        count = self.clear()
        self._levels.clear()
        self._read_back = None
        return count

    @property
    def parts(self) -> list[ReadyMessages]:
        """The levels that may not be empty, the highest first."""
        return [self._levels[number] for number in self.filled]

    @property
    def filled(self) -> list[int]:
        """Numbers of the levels that may not be empty, the highest first."""
        numbers, filled = [], self._filled
        while filled:
            numbers.append(filled.bit_length() - 1)
            filled ^= 1 << numbers[-1]
        return numbers

    def resident(self) -> list[QueuedMessage]:
        """Return the ready messages that are in memory, for statistics and invariants."""
        return [entry for _, level in sorted(self._levels.items(), reverse=True) for entry in level.resident()]

    def check(self) -> None:
        """Raise AssertionError unless each level is consistent and holds messages of its priority only."""
        for number, level in self._levels.items():
            level.check()
            assert not len(level) or self._filled >> number & 1, f"level {number} counts as empty"
            strangers = [entry.position for entry in level.resident() if entry.level != number]
            assert not strangers, f"messages {strangers} are in level {number}"
        windows = {level.window for level in self._levels.values()}
        assert len(windows) < 2, f"levels share the window as {windows}"


class PriorityStore:
    """A queue's part of the message store, one lane for each priority in use."""

    def __init__(self, place: StorePlace) -> None:
        self.queue_id = place.queue_id
        self.counters = place.counters
        self._place = place
        self._lanes = {level: self._new_lane(level) for level in self._stored_levels(place.states)}

    @property
    def state(self) -> LaneState:
        """The counts of all lanes together."""
        states = [lane.state for lane in self._lanes.values()]
        return LaneState(sum(state.messages for state in states), sum(state.bytes for state in states))

    def lane(self, number: int) -> QueueStore:
        """Return the lane of one priority, a new one if it is not in use."""
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = self._new_lane(number)
        return lane

    def _new_lane(self, level: int) -> QueueStore:
        return QueueStore(self._place, self._number(level))

    def _number(self, level: int) -> int:
        """Return the number of a priority's lane."""
        return level

    def _stored_levels(self, states: Mapping[int, LaneState]) -> Iterable[int]:
        """Return the priorities whose lanes were in use before."""
        return states

    def read(
        self, queue: OriginQueue, number: int, after: int, before: int, window: MemoryWindow
    ) -> list[QueuedMessage]:
        """Return stored messages of one priority between two positions: see `QueueStore.read`."""
        entries = self.lane(number).read(queue, after, before, window)
        for entry in entries:
            entry.level = number
        return entries

    def put(self, entry: QueuedMessage, *, durable: bool) -> None:
        """Put a message into the open batch: see `QueueStore.put`."""
        self.lane(entry.level).put(entry, durable=durable)

    def settle(self, entries: Iterable[QueuedMessage], *, moved: bool = False) -> None:
        """Settle messages: see `QueueStore.settle`."""
        for number, members in _by_level(entries).items():
            self._lanes[number].settle(members, moved=moved)

    def delivered(self, entries: Iterable[QueuedMessage]) -> None:
        """Raise the delivered marks: see `QueueStore.delivered`."""
        for number, members in _by_level(entries).items():
            self.lane(number).delivered(members)

    def purge(self, floor: int, survivors: Iterable[QueuedMessage]) -> None:
        """Drop all messages below position `floor` except `survivors`, the unacknowledged ones."""
        kept = _by_level(survivors)
        for number, lane in self._lanes.items():
            lane.purge(floor, kept.get(number, ()))

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """Subtract records of one lane that could not be read, and were set aside."""
        self.lane(number).lost(number, messages, size_bytes)

    def drop(self) -> None:
        """Have the records of a deleted queue reclaimed, all lanes with the first one."""
        used = [lane for lane in self._lanes.values() if lane.used]
        (used or [self.lane(0)])[0].drop()

    def restore(self) -> Mapping[int, QueueStore]:
        """Take up the lanes that are on disk at a start, and return them: see `QueueStore.restore`."""
        for lane in self._lanes.values():
            lane.restore()
        return self._lanes

    def load(self, entries: Iterable[QueuedMessage]) -> None:
        """Read the content of messages back into memory; unreadable ones stay without."""
        for number, members in _by_level(entries).items():
            self._lanes[number].load(members)

    def check(self, entries: Sequence[QueuedMessage], *, complete: bool) -> None:
        """Raise AssertionError unless each lane's counts agree with its priority: see `QueueStore.check`."""
        levels = _by_level(entries)
        for number, lane in self._lanes.items():
            assert lane.number == self._number(number), f"lane {lane.number} is in the place of priority {number}"
            lane.check(levels[number], complete=complete)


class PriorityQueue(OrderedQueue):
    """A queue with priorities 0 to `x-max-priority`; a higher priority counts as the maximum."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        super().__init__(spec, roles, context, owner)
        self._levels = cast(PriorityReadyMessages, self.ready_messages)
        self._highest = max(self.arguments.max_priority or 0, context.personality.max_priority_min)
        self.highest_priority = self._highest

    def publish(self, message: Message) -> bool:
        """Enqueue a message at the end of its level; return True if its confirm has to wait for the disk.

        Consumers with credit get it at once, not at the end of the turn, so that a later message of higher priority
        does not overtake it while a consumer waits. For the same reason several messages are published one by one.
        """
        position = self._position + 1
        durable = self.durable and message.persistent
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=durable)
        self._position = position
        entry = QueuedMessage(self, position, message, len(message.body), self.limits.expires_at(message))
        entry.level = level = min(message.priority, self._highest)
        # Beyond the window transient messages go to the store too: they leave memory once they are there.
        if durable or self._levels.level(level).paging:
            self.store.put(entry, durable=durable)
        self._levels.append(entry)
        if self.limits.on_length:
            self.limits.drop_excess()
        if len(self.consumers):
            self.deliver()
        else:
            self.touch()
        return durable


def _by_level(entries: Iterable[QueuedMessage]) -> dict[int, list[QueuedMessage]]:
    levels: dict[int, list[QueuedMessage]] = defaultdict(list)
    for entry in entries:
        levels[entry.level].append(entry)
    return levels
