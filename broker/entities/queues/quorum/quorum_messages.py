"""The ready messages of a quorum queue: returned ones in the order of their return, then the others by priority.

A message that was delayed and is due is among the returned ones. Until it is near the front it is a number in memory
(see `DueMessages`), not an object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from broker.entities.arguments.quorum_priorities import DEFAULT
from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.due_messages import size_of
from broker.entities.queues.priority_queue import PriorityReadyMessages
from broker.entities.queues.ready_messages import Front, MemoryWindow, ReadyMessages
from broker.entities.queues.ready_section import ReadySection

HIGH_IN_TURN = 2
"""Messages delivered before one of a lower level may go first, where high ones must not keep the others waiting."""

NUMBERS_AT_ONCE = 256
"""Numbers that become objects at a time, their contents read together."""


class QuorumLevel(ReadyMessages):
    """Ready messages of one priority, in publish order."""

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages: see `ReadyMessages.run`. Stops before a redelivered one."""
        fresh = 0
        for entry in islice(self._head, messages):
            if entry.redelivered:
                break
            fresh += 1
        return super().run(fresh, size_bytes, now)


class FairLevels(PriorityReadyMessages):
    """Levels that take turns, as in RabbitMQ 4.2: after HIGH_IN_TURN messages one goes first that is not high.

    Messages count whichever level they are of. A high one that was published before it still goes first.
    """

    _in_turn = 0

    def peek(self) -> QueuedMessage | None:
        """Return the first ready message and leave it; None without one. May read from disk."""
        first = super().peek()
        if first is None or first.level <= DEFAULT or self._in_turn < HIGH_IN_TURN:
            return first
        lower = self._first_lower()
        return first if lower is None or first.position < lower.position else lower

    def _first_lower(self) -> QueuedMessage | None:
        lower = (self._levels[number].peek() for number in self.filled if number <= DEFAULT)
        return next((entry for entry in lower if entry is not None), None)

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message; None without one. Its content may be on disk only."""
        entry = super().pop()
        self._count(entry is not None)
        return entry

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages, of one level: see `ReadyMessages.run`."""
        if len(self.filled) > 1:
            messages = min(messages, max(1, HIGH_IN_TURN - self._in_turn))
        taken = super().run(messages, size_bytes, now)
        self._count(len(taken))
        return taken

    def due(self, now: int, size_bytes: int) -> list[QueuedMessage]:
        """Return nothing: each message taken counts."""
        return []

    def _count(self, messages: int) -> None:
        self._in_turn = (self._in_turn + messages) % (HIGH_IN_TURN + 1)


class ReturnedMessages:
    """Messages that were returned, in the order of their return.

    `bring` makes objects of numbers, with their contents; it may leave some of the last ones out. `look_at` makes an
    object of one, perhaps without its content, and leaves it a number.
    """

    def __init__(
        self,
        bring: Callable[[Sequence[int]], Sequence[QueuedMessage]],
        look_at: Callable[[int], QueuedMessage],
    ) -> None:
        self._bring: Callable[[Sequence[int]], Sequence[QueuedMessage]] | None = bring
        self._look_at: Callable[[int], QueuedMessage] | None = look_at
        self._entries: deque[QueuedMessage] = deque()
        """Objects that go before the rest."""
        self._rest: deque[QueuedMessage | int] = deque()
        """Empty, or begins with a number."""
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries) + len(self._rest)

    def extend(self, entries: Sequence[QueuedMessage]) -> None:
        """Add messages that are returned now."""
        (self._rest or self._entries).extend(entries)
        self.bytes += sum(entry.size for entry in entries)

    def append_due(self, number: int) -> None:
        """Add a message that was delayed and is due now, by its number."""
        self._rest.append(number)
        self.bytes += size_of(number)

    def put_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put messages that were taken back to the front."""
        self._entries.extendleft(reversed(entries))
        self.bytes += sum(entry.size for entry in entries)

    def peek(self) -> QueuedMessage | None:
        """Return the first message and leave it; None without one. May read from disk."""
        if not self._entries and self._rest:
            self._bring_some()
        return self._entries[0] if self._entries else None

    def pop(self) -> QueuedMessage | None:
        """Take the first message; None without one."""
        if self.peek() is None:
            return None
        entry = self._entries.popleft()
        self.bytes -= entry.size
        return entry

    def due(self, now: int, size_bytes: int) -> list[QueuedMessage]:
        """Return nothing: they are taken one by one."""
        return []

    def first(self, limit: int) -> list[QueuedMessage]:
        """Return the first messages, at most `limit`, and leave them."""
        return list(islice(self._entries, limit))

    def look(self, section: ReadySection) -> None:
        """Add all messages to a section, in order."""
        section.add(self._entries)
        if self._rest and self._look_at is not None:
            section.add_numbers(self._rest, self._look_at)

    @property
    def head(self) -> QueuedMessage | None:
        """The first message, if it is an object."""
        return self._entries[0] if self._entries else None

    @property
    def numbers(self) -> int:
        """Number of those that are numbers, for invariants."""
        return sum(isinstance(entry, int) for entry in self._rest)

    def resident(self) -> list[QueuedMessage]:
        """Return the messages that are objects."""
        return [*self._entries, *(entry for entry in self._rest if not isinstance(entry, int))]

    def clear(self) -> int:
        """Drop all; return their number."""
        count = len(self)
        self._entries.clear()
        self._rest.clear()
        self.bytes = 0
        return count

    def end(self) -> None:
        """Forget the queue, which is deleted."""
        self._bring = self._look_at = None

    def check(self) -> None:
        """Raise AssertionError unless the bytes are counted right."""
        size = sum(entry.size for entry in self._entries)
        size += sum(size_of(entry) if isinstance(entry, int) else entry.size for entry in self._rest)
        assert self.bytes == size, f"returned messages have {size} bytes, {self.bytes} are counted"
        assert not self._rest or isinstance(self._rest[0], int), "an object is among the numbers"

    def _bring_some(self) -> None:
        """Make objects of the first numbers, and add the objects behind them."""
        assert self._bring is not None, "a deleted queue has no returned messages"
        numbers: list[int] = []
        for number in islice(self._rest, NUMBERS_AT_ONCE):
            if not isinstance(number, int):
                break
            numbers.append(number)
        entries = self._bring(numbers)
        for _ in entries:
            self._rest.popleft()
        self._entries.extend(entries)
        while self._rest and not isinstance(self._rest[0], int):
            entry = self._rest.popleft()
            assert not isinstance(entry, int), "seen above"
            self._entries.append(entry)


class QuorumReadyMessages:
    """The ready messages of a quorum queue: see the module.

    `all_fronts`: the first returned message may expire, and the first of each priority; else only the first of all.
    """

    def __init__(self, returned: ReturnedMessages, levels: PriorityReadyMessages, *, all_fronts: bool) -> None:
        self.returned = returned
        self.levels = levels
        self._all_fronts = all_fronts

    def __len__(self) -> int:
        return len(self.returned) + len(self.levels)

    @property
    def bytes(self) -> int:
        """Bytes of the bodies of all ready messages."""
        return self.returned.bytes + self.levels.bytes

    @property
    def in_memory(self) -> MemoryWindow:
        """Number of ready messages in memory, and bytes of their bodies; some may be on disk only."""
        levels = self.levels.in_memory
        return MemoryWindow(len(self.returned) + levels.messages, self.returned.bytes + levels.bytes)

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message, if it is in memory."""
        return self.returned.head if len(self.returned) else self.levels.head

    @property
    def fronts(self) -> Sequence[Front]:
        """The parts of which the first message may expire."""
        return (self.returned, *self.levels.parts) if self._all_fronts else (self,)

    @property
    def paging(self) -> bool:
        """Some level has paged messages, or puts all its messages into the store."""
        return self.levels.paging

    @property
    def by_priority(self) -> dict[int, int]:
        """Number of messages of each priority, the lowest first, without returned ones."""
        counts = {number: len(self.levels.level(number)) for number in reversed(self.levels.filled)}
        return {number: count for number, count in counts.items() if count}

    def append(self, entry: QueuedMessage) -> None:
        """Add a published message."""
        self.levels.append(entry)

    def restore(self, messages: int, size_bytes: int, number: int = 0) -> None:
        """Take up the messages of one level that are on disk at a start."""
        self.levels.restore(messages, size_bytes, number)

    def stored(self, up_to: int, number: int = 0) -> None:
        """Page the messages of one level up to a position that is on disk: see `ReadyMessages.stored`."""
        self.levels.stored(up_to, number)

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put returned messages behind those that were returned before."""
        self.returned.extend(entries)

    def put_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put the first messages, which were taken, back to where they were."""
        fresh = [entry for entry in entries if not entry.redelivered]
        self.levels.put_back(fresh)
        self.returned.put_back([entry for entry in entries if entry.redelivered])

    def peek(self) -> QueuedMessage | None:
        """Return the first ready message and leave it; None without one. May read from disk."""
        return self.returned.peek() or self.levels.peek()

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message; None without one. Its content may be on disk only."""
        return self.returned.pop() or self.levels.pop()

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages: see `ReadyMessages.run`. None of them is redelivered."""
        return [] if len(self.returned) else self.levels.run(messages, size_bytes, now)

    def due(self, now: int, size_bytes: int) -> list[QueuedMessage]:
        """Take the first messages if they have expired: see `ReadyMessages.due`."""
        return [] if len(self.returned) else self.levels.due(now, size_bytes)

    def next_returned(self, limit: int) -> list[QueuedMessage]:
        """Return the first `limit` returned messages and leave them."""
        return self.returned.first(limit)

    def look(self, section: ReadySection) -> None:
        """Add all messages to a section, in order: see `ReadyMessages.look`."""
        self.returned.look(section)
        self.levels.look(section)

    def clear(self) -> int:
        """Drop every ready message; return their number."""
        return self.returned.clear() + self.levels.clear()

    def end(self) -> int:
        """Drop every ready message, and the references to the queue; return their number."""
        self.returned.end()
        return self.returned.clear() + self.levels.end()

    def resident(self) -> list[QueuedMessage]:
        """Return the ready messages that are in memory, for statistics and invariants."""
        return [*self.returned.resident(), *self.levels.resident()]

    def check(self) -> None:
        """Raise AssertionError unless returned messages are counted right, and the levels are sound."""
        self.returned.check()
        self.levels.check()
