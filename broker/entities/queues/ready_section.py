"""A section of a queue's ready messages in the order of delivery, for a look that changes nothing.

It is cut in one call. Messages in memory are in it themselves; those on disk only are a part of a lane, which the store
reads later, in steps. So a section of a long queue costs no more than its messages in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

from broker.entities.messages.message import OriginQueue, QueuedMessage


class ResidentPart(NamedTuple):
    """Messages in memory. The contents of some may be on disk only."""

    entries: list[QueuedMessage]


class PagedPart(NamedTuple):
    """Messages on disk only: those of a level between two positions, exclusive, without the first `skip`.

    `messages` is their number. With `dense` positions are the numbers of messages, plus a constant.
    """

    level: int
    after: int
    before: int
    skip: int
    messages: int
    dense: bool = False


class ReadySection:
    """The messages of a queue from number `start` on, at most `count`. All that are ready are added in order."""

    def __init__(self, queue: OriginQueue, start: int, count: int) -> None:
        self.queue = queue
        self.parts: list[ResidentPart | PagedPart] = []
        self._skip = start
        self._left = count

    def add(self, entries: deque[QueuedMessage]) -> None:
        """Add messages in memory."""
        start, end = self._cut(len(entries))
        if start < end:
            self.parts.append(ResidentPart(list(islice(entries, start, end))))

    def add_numbers(self, mixed: Collection[QueuedMessage | int], made: Callable[[int], QueuedMessage]) -> None:
        """Add messages in memory, some of which are numbers of which objects have to be made."""
        start, end = self._cut(len(mixed))
        if start < end:
            some = islice(mixed, start, end)
            self.parts.append(ResidentPart([made(entry) if isinstance(entry, int) else entry for entry in some]))

    def add_returned(self, returned: list[QueuedMessage], head: deque[QueuedMessage]) -> None:
        """Add returned messages, of which the first is last, and those of a head, merged by position."""
        start, end = self._cut(len(returned) + len(head))
        if start < end:
            self.parts.append(ResidentPart(_merged(returned, head, start, end - start)))

    def add_on_disk(self, messages: int, after: int, before: int, level: int, *, dense: bool = False) -> None:
        """Add messages that are on disk only."""
        start, end = self._cut(messages)
        if start < end and dense:
            self.parts.append(PagedPart(level, after + start, after + end + 1, 0, end - start, dense))
        elif start < end:
            self.parts.append(PagedPart(level, after, before, start, end - start))

    def _cut(self, length: int) -> tuple[int, int]:
        """Return the range of the next `length` messages that is in the section."""
        start = min(self._skip, length)
        end = min(start + self._left, length)
        self._skip -= start
        self._left -= end - start
        return start, end


def _merged(returned: list[QueuedMessage], head: deque[QueuedMessage], start: int, count: int) -> list[QueuedMessage]:
    """Return `count` messages of two sequences that are merged by position, from number `start` on.

    Bisects for the number of returned messages before `start`: there may be very many.
    """
    last, low, high = len(returned) - 1, max(0, start - len(head)), min(start, len(returned))
    while low < high:
        middle = (low + high) // 2
        if returned[last - middle].position < head[start - middle - 1].position:
            low = middle + 1
        else:
            high = middle
    end = len(returned) - low
    some = returned[max(0, end - count) : end]
    some += islice(head, start - low, start - low + count)
    return sorted(some, key=_position)[:count]


_position: Final = attrgetter("position")
