"""Queues with `x-max-priority`: messages of higher priority first, in publish order within one priority.

Each priority that came into use is a level: a `ReadyMessages` in memory and a `QueueStore` in the message store, both
just as a plain queue has one of. Positions count through all levels. A message's level is decided at the publish and
kept in its `QueuedMessage`; on disk it is the number of the lane, so a restart or a look at a message's place reads no
properties.

The head of the queue is the head of the highest level that holds anything. Whatever happens at the head happens
there and nowhere else, as in RabbitMQ: what has expired in a lower level stays until it gets there, and a queue
that is too long loses messages of the highest priority first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from broker.entities.messages.message import Message, OriginQueue, QueuedMessage
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import QueueContext, QueueSpec, Roles
from broker.entities.queues.queue_store import QueueStore, StorePlace
from broker.entities.queues.ready_messages import MemoryWindow, ReadBack, ReadyMessages
from storage.batch import LaneState


class PriorityReadyMessages:
    """Ready messages, the highest level first.

    The levels in use share the queue's window equally. A head that was filled when there were fewer of them is not
    cut, so memory holds at most a window times the harmonic number of the levels: 3 for 10 of them, 6 for all 256.
    """

    def __init__(self, window: MemoryWindow, read_back: Callable[[int], ReadBack]) -> None:
        self._window = window
        self._read_back: Callable[[int], ReadBack] | None = read_back
        self._levels: dict[int, ReadyMessages] = {}
        self._filled = 0  # bit n is set when level n may hold something

    def __len__(self) -> int:
        return sum(map(len, self._filled_levels())) if self._filled else 0

    @property
    def bytes(self) -> int:
        """The bodies of all ready messages."""
        return sum(level.bytes for level in self._filled_levels())

    @property
    def in_memory(self) -> MemoryWindow:
        """How many are in memory, and the bytes of their bodies."""
        parts = [level.in_memory for level in self._filled_levels()]
        return MemoryWindow(sum(part.messages for part in parts), sum(part.bytes for part in parts))

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message, if it is in memory."""
        level = next((level for level in self._filled_levels() if len(level)), None)
        return None if level is None else level.head

    @property
    def paging(self) -> bool:
        """Some level's messages lie on disk only."""
        return any(level.paging for level in self._levels.values())

    def level(self, number: int) -> ReadyMessages:
        """The ready messages of one priority, which comes into use by being asked for."""
        level = self._levels.get(number)
        if level is None:
            assert self._read_back is not None, "no priority comes into use in a queue that is gone"
            level = self._levels[number] = ReadyMessages(self._window, self._read_back(number))
            share = self._window.share(len(self._levels))
            for sharer in self._levels.values():
                sharer.window = share
        return level

    def append(self, entry: QueuedMessage) -> None:
        """Add a message that was just published."""
        self.level(entry.level).append(entry)
        self._filled |= 1 << entry.level

    def restore(self, messages: int, size_bytes: int, number: int = 0) -> None:
        """Start with messages of one priority that are on disk."""
        self.level(number).restore(messages, size_bytes)
        self._filled |= 1 << number

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put messages back in their places."""
        for number, members in _by_level(entries).items():
            self.level(number).give_back(members)
            self._filled |= 1 << number

    def peek(self) -> QueuedMessage | None:
        """The first ready message, left in place."""
        while self._filled:
            number = self._filled.bit_length() - 1
            entry = self._levels[number].peek()
            if entry is not None:
                return entry
            self._filled ^= 1 << number
        return None

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message."""
        entry = self.peek()
        return None if entry is None else self._levels[entry.level].pop()

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages of the highest level in one go: see `ReadyMessages.run`."""
        first = self.peek()
        return [] if first is None else self._levels[first.level].run(messages, size_bytes, now)

    def due(self, now: int, room: int) -> list[QueuedMessage]:
        """Take the first messages of the highest level whose time has passed: see `ReadyMessages.due`."""
        first = self.peek()
        return [] if first is None else self._levels[first.level].due(now, room)

    def next_returned(self, limit: int) -> list[QueuedMessage]:
        """The next messages in line among the returned ones of the highest level, left in place."""
        first = self.peek()
        return [] if first is None else self._levels[first.level].next_returned(limit)

    def stored(self, up_to: int, number: int = 0) -> None:
        """Everything given to the lane of one priority up to a position is on disk."""
        self.level(number).stored(up_to)

    def clear(self) -> int:
        """Forget every ready message; their number."""
        self._filled = 0
        return sum(level.clear() for level in self._levels.values())

    def end(self) -> int:
        """Forget every ready message, and the queue that they are read back for; their number."""
        count = self.clear()
        self._levels.clear()
        self._read_back = None
        return count

    def _filled_levels(self) -> list[ReadyMessages]:
        """Those that may hold something."""
        levels, filled = [], self._filled
        while filled:
            number = filled.bit_length() - 1
            levels.append(self._levels[number])
            filled ^= 1 << number
        return levels

    def resident(self) -> list[QueuedMessage]:
        """The ready messages that are in memory, for statistics and invariants."""
        return [entry for _, level in sorted(self._levels.items(), reverse=True) for entry in level.resident()]

    def check(self) -> None:
        """Raise AssertionError unless each level is sound, holds its own messages, and is known to hold any."""
        for number, level in self._levels.items():
            level.check()
            assert not len(level) or self._filled >> number & 1, f"level {number} counts as empty"
            strangers = [entry.position for entry in level.resident() if entry.level != number]
            assert not strangers, f"messages {strangers} are in level {number}"
        windows = {level.window for level in self._levels.values()}
        assert len(windows) < 2, f"levels share the window as {windows}"


class PriorityStore:
    """A queue's share of the message store, one lane for each priority that came into use."""

    def __init__(self, place: StorePlace) -> None:
        self.queue_id = place.queue_id
        self.counters = place.counters
        self._place = place
        self._lanes = {number: QueueStore(place, number) for number in place.states}

    @property
    def state(self) -> LaneState:
        """What all lanes count together."""
        states = [lane.state for lane in self._lanes.values()]
        return LaneState(sum(state.messages for state in states), sum(state.bytes for state in states))

    def lane(self, number: int) -> QueueStore:
        """The lane of one priority, which comes into use by being asked for."""
        lane = self._lanes.get(number)
        if lane is None:
            lane = self._lanes[number] = QueueStore(self._place, number)
        return lane

    def read(
        self, queue: OriginQueue, number: int, after: int, before: int, window: MemoryWindow
    ) -> list[QueuedMessage]:
        """Stored messages of one priority between two positions: see `QueueStore.read`."""
        entries = self.lane(number).read(queue, after, before, window)
        for entry in entries:
            entry.level = number
        return entries

    def put(self, entry: QueuedMessage, *, durable: bool) -> None:
        """Have a message written with the open batch: see `QueueStore.put`."""
        self.lane(entry.level).put(entry, durable=durable)

    def settle(self, entries: Iterable[QueuedMessage], *, moved: bool = False) -> None:
        """Messages are finished with: see `QueueStore.settle`."""
        for number, members in _by_level(entries).items():
            self._lanes[number].settle(members, moved=moved)

    def delivered(self, entries: Iterable[QueuedMessage]) -> None:
        """A consumer has seen these messages: see `QueueStore.delivered`."""
        for number, members in _by_level(entries).items():
            self.lane(number).delivered(members)

    def purge(self, floor: int, survivors: Iterable[QueuedMessage]) -> None:
        """Everything below `floor` is dead, save what is still out with consumers."""
        held = _by_level(survivors)
        for number, lane in self._lanes.items():
            lane.purge(floor, held.get(number, ()))

    def lost(self, number: int, messages: int, size_bytes: int) -> None:
        """The store has set aside records of one lane that it could not read."""
        self.lane(number).lost(number, messages, size_bytes)

    def drop(self) -> None:
        """The queue is gone for good: its records are to be reclaimed."""
        used = [lane for lane in self._lanes.values() if lane.used]
        (used or [self.lane(0)])[0].drop()

    def restore(self) -> Mapping[int, QueueStore]:
        """The lanes were there before this start: what had been delivered is redelivered."""
        for lane in self._lanes.values():
            lane.restore()
        return self._lanes

    def load(self, entries: Iterable[QueuedMessage]) -> None:
        """Read the content of messages back into memory; those that cannot be read stay without."""
        for number, members in _by_level(entries).items():
            self._lanes[number].load(members)

    def check(self, entries: Sequence[QueuedMessage], *, complete: bool) -> None:
        """Raise AssertionError unless each lane counts what there is of its priority: see `QueueStore.check`."""
        levels = _by_level(entries)
        for number, lane in self._lanes.items():
            assert lane.number == number, f"lane {lane.number} is in the place of lane {number}"
            lane.check(levels[number], complete=complete)


class PriorityQueue(OrderedQueue):
    """A queue whose messages have priorities from 0 to `x-max-priority`; higher ones count as that."""

    def __init__(self, spec: QueueSpec, roles: Roles, context: QueueContext, owner: object | None = None) -> None:
        super().__init__(spec, roles, context, owner)
        self._levels = cast(PriorityReadyMessages, self.ready_messages)

    def publish(self, message: Message) -> bool:
        """Take a message at the end of its level. True if a confirm of it has to wait for the disk.

        Consumers with credit have it at once, not at the end of the turn: a message that finds one waiting is not
        overtaken by what is published behind it. For that reason, several are published one after the other, too.
        """
        position = self._position + 1
        durable = self.durable and message.persistent
        if self.events is not None:
            position = self.events.arrived((message,), position, kept=durable)
        self._position = position
        entry = QueuedMessage(self, position, message, len(message.body), self.limits.expires_at(message))
        entry.level = level = min(message.priority, self.arguments.max_priority or 0)
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
