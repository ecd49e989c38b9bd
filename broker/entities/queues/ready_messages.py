"""The ready messages of a queue, in order, with a window of them in memory.

They are in four parts, each ascending in position, and each before the next, except for the first:

    returned   returned by consumers; at any position, so they are kept apart and merged on delivery
    head       in memory
    paged      on disk only: a count, and the position after which to read
    tail       in memory because not on disk yet

A queue starts with a head alone. When the head fills the window, later messages go to the tail and to the store,
persistent or not; once on disk they leave memory and count as paged. An empty head is read back from disk, and once
nothing is paged, the tail joins the head if both fit into the window, or becomes the head. So the first ready message
is in memory or one read away, and memory is bounded by the window, however long the queue.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.ready_section import ReadySection
from broker.entities.scheduling.background_work import MESSAGE_BYTES


class MemoryWindow(NamedTuple):
    """A number of messages and of bytes: what stays in memory at the head of a queue, until either is reached."""

    messages: int
    bytes: int

    def share(self, sharers: int) -> MemoryWindow:
        """Return the part that each of `sharers` may use."""
        return MemoryWindow(max(1, self.messages // sharers), max(1, self.bytes // sharers))


ReadBack = Callable[[int, int, MemoryWindow], list[QueuedMessage]]
"""Returns the messages stored after one position and before another, as many as the window has."""

_END: Final = 1 << 64

FEW_OF: Final = 32
"""If fewer than 1 in FEW_OF are newly returned, each is inserted; otherwise all returned messages are sorted again."""


class Front(Protocol):
    """Ready messages in order, of which the first may expire."""

    def peek(self) -> QueuedMessage | None:
        """Return the first message and leave it; None without one. May read from disk."""

    def pop(self) -> QueuedMessage | None:
        """Take the first message; None without one."""

    def due(self, now: int, size_bytes: int) -> list[QueuedMessage]:
        """Take the first messages if they have expired: see `ReadyMessages.due`."""


class ReadyMessages:
    """Ready messages in publish order."""

    def __init__(self, window: MemoryWindow, read_back: ReadBack) -> None:
        self.window = window
        self._read_back: ReadBack | None = read_back
        self._returned: list[QueuedMessage] = []  # descending: the next one is last
        self._head: deque[QueuedMessage] = deque()
        self._head_bytes = 0
        self._tail: deque[QueuedMessage] = deque()
        self._paged = 0
        self._paged_bytes = 0
        self._read_up_to = 0
        self.paging = False
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._returned) + len(self._head) + self._paged + len(self._tail)

    @property
    def in_memory(self) -> MemoryWindow:
        """Number in memory, and bytes of their bodies; the bodies of returned messages may be on disk only."""
        return MemoryWindow(len(self) - self._paged, max(0, self.bytes - self._paged_bytes))

    @property
    def head(self) -> QueuedMessage | None:
        """The first ready message if it is in memory, else None; nothing is read back."""
        first = self._head[0] if self._head else None
        if self._returned and (first is None or self._returned[-1].position < first.position):
            return self._returned[-1] if first is not None or not self._paged else None
        return first

    @property
    def fronts(self) -> Sequence[Front]:
        """The parts of which the first message may expire."""
        return (self,)

    def append(self, entry: QueuedMessage) -> None:
        """Add a published message."""
        self.bytes += entry.size
        if self.paging:
            self._tail.append(entry)
            return
        self._head.append(entry)
        self._head_bytes += entry.size
        # `_is_full` inlined: this is called for each message.
        if len(self._head) >= self.window.messages or self._head_bytes >= self.window.bytes:
            self.paging = True
            self._read_up_to = entry.position

    def extend(self, entries: Sequence[QueuedMessage]) -> None:
        """Add published messages; the head may exceed its window by them."""
        size = 0
        for entry in entries:
            size += entry.size
        self.bytes += size
        if self.paging:
            self._tail.extend(entries)
            return
        self._head.extend(entries)
        self._head_bytes += size
        if self._is_full:
            self.paging = True
            self._read_up_to = entries[-1].position

    def restore(self, messages: int, size_bytes: int, number: int = 0) -> None:
        """Take up the messages that are on disk at a start. `number` is the lane's, here the only one."""
        self._paged, self.bytes, self.paging = messages, size_bytes, messages > 0
        self._paged_bytes = size_bytes

    def give_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put returned messages back in order. Many are cheapest in descending order."""
        if _are_first(entries, self._returned):
            self._returned.extend(entries)
        elif len(entries) * FEW_OF < len(self._returned):
            for entry in entries:
                insort(self._returned, entry, key=_descending)
        else:
            self._returned.extend(entries)
            self._returned.sort(key=_position, reverse=True)
        self.bytes += sum(map(_size, entries))

    def put_back(self, entries: Sequence[QueuedMessage]) -> None:
        """Put the first messages, which were taken, back to where they were."""
        self.give_back(entries)

    def peek(self) -> QueuedMessage | None:
        """Return the first ready message and leave it; None without one. May read from disk."""
        head = self._head
        if not head and self.paging:
            self._refill()
        if self._returned and (not head or self._returned[-1].position < head[0].position):
            return self._returned[-1]
        return head[0] if head else None

    def pop(self) -> QueuedMessage | None:
        """Take the first ready message; None without one. Its content may be on disk only."""
        entry = self.peek()
        if entry is None:
            return None
        if self._returned and self._returned[-1] is entry:
            self._returned.pop()
        else:
            self._head.popleft()
            self._head_bytes -= entry.size
        self.bytes -= entry.size
        return entry

    def run(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages that are in memory and did not expire before `now`.

        At most `messages`, stopping after `size_bytes`. If the result is empty, the caller uses `pop`.
        """
        if self._returned:
            return self._run_of_returned(messages, size_bytes, now)
        taken: list[QueuedMessage] = []
        head, size = self._head, 0
        if not now and len(head) <= messages and self._head_bytes < size_bytes:
            taken, size = list(head), self._head_bytes
            head.clear()
        while head and len(taken) < messages and size < size_bytes:
            entry = head[0]
            if entry.expires_at and entry.expires_at < now:
                break
            taken.append(head.popleft())
            size += entry.size
        self._head_bytes -= size
        self.bytes -= size
        return taken

    def _run_of_returned(self, messages: int, size_bytes: int, now: int) -> list[QueuedMessage]:
        """Take the first ready messages that were returned, as `run` does, as long as they are before the head."""
        taken: list[QueuedMessage] = []
        head, returned, size = self._head, self._returned, 0
        if self.paging and not head:
            return taken
        before = head[0].position if head else _END
        while returned and len(taken) < messages and size < size_bytes:
            entry = returned[-1]
            if entry.position > before or entry.message is None or (entry.expires_at and entry.expires_at <= now):
                break
            taken.append(returned.pop())
            size += entry.size
        self.bytes -= size
        return taken

    def due(self, now: int, size_bytes: int) -> list[QueuedMessage]:
        """Take the first ready messages if they have expired, up to `size_bytes`, MESSAGE_BYTES for each included.

        If the result is empty, the caller uses `pop`.
        """
        taken: list[QueuedMessage] = []
        head, size = self._head, 0
        if self._returned:
            return taken
        while head and size + len(taken) * MESSAGE_BYTES < size_bytes and 0 < head[0].expires_at <= now:
            taken.append(head.popleft())
            size += taken[-1].size
        self._head_bytes -= size
        self.bytes -= size
        return taken

    def next_returned(self, limit: int) -> list[QueuedMessage]:
        """Return the first `limit` returned messages and leave them."""
        return self._returned[: -limit - 1 : -1]

    def look(self, section: ReadySection, level: int = 0) -> None:
        """Add all messages to a section, in order. Nothing is read back."""
        section.add_returned(self._returned, self._head)
        before = self._tail[0].position if self._tail else _END
        section.add_on_disk(self._paged, self._read_up_to, before, level)
        section.add(self._tail)

    def stored(self, up_to: int, number: int = 0) -> None:
        """Drop from the tail, and count as paged, all messages up to a position that is on disk."""
        tail = self._tail
        while tail and tail[0].position <= up_to:
            self._paged_bytes += tail.popleft().size
            self._paged += 1

    def clear(self) -> int:
        """Drop every ready message; return their number."""
        count = len(self)
        self._returned.clear()
        self._head.clear()
        self._tail.clear()
        self._paged = self._paged_bytes = self._head_bytes = self.bytes = 0
        self.paging = False
        return count

    def end(self) -> int:
        """Drop every ready message, and the reference to the queue; return their number."""
        count = self.clear()
        self._read_back = None
        return count

    def resident(self) -> list[QueuedMessage]:
        """Return the ready messages that are in memory, for statistics and invariants."""
        return [*reversed(self._returned), *self._head, *self._tail]

    def check(self) -> None:
        """Raise AssertionError unless the parts are in order, disjoint and counted right."""
        self._check_returned()
        order = [entry.position for entry in (*self._head, *self._tail)]
        assert all(before < after for before, after in pairwise(order)), f"head and tail are out of order: {order}"
        assert self.paging or not (self._paged or self._tail), "nothing is paged out, but something is on disk only"
        assert self._paged >= 0, f"{self._paged} messages are on disk only"
        resident = self.resident()
        assert len({id(entry) for entry in resident}) == len(resident), "a message is ready twice"
        for entry in resident:
            assert entry.consumer is None, f"message {entry.position} is ready and with a consumer"
            assert entry.message is not None or entry.stored, f"message {entry.position} is nowhere"
        assert all(entry.stored for entry in self._tail), "a message of the tail was not given to the store"
        head_bytes, size = sum(map(_size, self._head)), sum(map(_size, resident))
        assert self._head_bytes == head_bytes, f"the head has {head_bytes} bytes, {self._head_bytes} are counted"
        if not self.paging:
            assert not self._paged_bytes, f"nothing is on disk only, {self._paged_bytes} bytes are counted"
            assert self.bytes == size, f"ready messages have {size} bytes, {self.bytes} are counted"

    def _check_returned(self) -> None:
        positions = [entry.position for entry in self._returned]
        assert all(after < before for before, after in pairwise(positions)), f"returned out of order: {positions}"

    def _refill(self) -> None:
        before = self._tail[0].position if self._tail else _END
        entries: list[QueuedMessage] = []
        # An empty answer means that the store could not read what is paged: it is not counted any more.
        if self._paged and self._read_back is not None:
            entries = self._read_back(self._read_up_to, before, self.window)
        self._paged = max(0, self._paged - len(entries)) if entries else 0
        size = sum(map(_size, entries))
        self._paged_bytes = max(0, self._paged_bytes - size) if self._paged else 0
        if entries:
            self._read_up_to = entries[-1].position
            self._head.extend(entries)
            self._head_bytes += size
        tail_bytes = 0 if self._paged else sum(map(_size, self._tail))
        if not self._paged and self._tail_fits(tail_bytes):
            self._head.extend(self._tail)
            self._head_bytes += tail_bytes
            self._tail.clear()
        at_hand = not (self._paged or self._tail)
        self.paging = not at_hand or self._is_full
        if at_hand:  # messages that could not be read back are no longer counted
            self.bytes = self._head_bytes + sum(entry.size for entry in self._returned)
            self._read_up_to = self._head[-1].position if self._head else self._read_up_to

    @property
    def _is_full(self) -> bool:
        """The head has filled its window: later messages go to the tail."""
        return len(self._head) >= self.window.messages or self._head_bytes >= self.window.bytes

    def _tail_fits(self, tail_bytes: int) -> bool:
        """Return whether head and tail together fit into the window; an empty head takes any tail."""
        if not (self._head and self._tail):
            return True
        messages, size = len(self._head) + len(self._tail), self._head_bytes + tail_bytes
        return messages <= self.window.messages and size <= self.window.bytes


_size: Final = attrgetter("size")
_position: Final = attrgetter("position")


def _descending(entry: QueuedMessage) -> int:
    return -entry.position


def _are_first(entries: Sequence[QueuedMessage], returned: Sequence[QueuedMessage]) -> bool:
    """Return whether messages are in descending order and before all that were returned earlier."""
    before = returned[-1].position if returned else _END
    return all(after < last for last, after in pairwise((before, *map(_position, entries))))
