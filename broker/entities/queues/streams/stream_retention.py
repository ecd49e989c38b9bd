"""Which part of a stream is kept.

A stream is cut into segments by size. When a segment is full and another message comes, it is closed, and then, as in
RabbitMQ, the oldest segments go: those beyond the size that the stream may have, and those whose last message is too
old. A segment goes as a whole, and the one that is being written never goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from broker.entities.arguments.stream_arguments import StreamArguments
from storage.batch import OFFSET_STRIDE

MESSAGE_BYTES = 64
"""What a message counts beside its body."""


class StreamSegment(NamedTuple):
    """Offsets from `first` on and before `end`; the bytes of their bodies; when the last of them was published."""

    first: int
    end: int
    bytes: int
    last_time: int

    @property
    def size(self) -> int:
        """What it counts of what a stream may have."""
        return self.bytes + MESSAGE_BYTES * (self.end - self.first)


class StreamSegments:
    """The segments of one stream, oldest first."""

    def __init__(self, rules: StreamArguments) -> None:
        self._rules = rules
        self._closed: deque[StreamSegment] = deque()
        self._closed_size = 0
        self._open = StreamSegment(0, 0, 0, 0)

    def __len__(self) -> int:
        return len(self._closed) + 1

    def keep(self, rules: StreamArguments) -> None:
        """Go by other rules from now on: what has to go by them goes when the next segment is closed."""
        self._rules = rules

    @property
    def first(self) -> int:
        """The lowest offset that is kept."""
        return self._closed[0].first if self._closed else self._open.first

    @property
    def last(self) -> int:
        """The offset of the last message; where there is none, the one before the next."""
        is_empty = self._open.end == self._open.first
        return (self._closed[-1] if self._closed and is_empty else self._open).end - 1

    @property
    def last_time(self) -> int:
        """When the last message was published."""
        return self._open.last_time

    @property
    def full(self) -> bool:
        """The next message belongs to another segment."""
        return self._open.end > self._open.first and self._open.size >= self._rules.segment_bytes

    def restore(self, closed: Iterable[StreamSegment], stored: StreamSegment, messages: int) -> None:
        """Begin with what is stored: so many messages between two offsets.

        A closed segment whose record is missing counts as a part of the next one. A gap as long as a restore of a
        backup leaves is no part of any.
        """
        first, end = stored.first, stored.end
        for segment in closed:
            if first < segment.end <= end:
                self._close(segment if segment.first - first >= OFFSET_STRIDE else segment._replace(first=first))
                first = segment.end
        size_bytes = max(0, stored.bytes - sum(segment.bytes for segment in self._closed))
        messages -= sum(segment.end - segment.first for segment in self._closed)
        if end - first - messages >= OFFSET_STRIDE:
            first = end - messages
        self._open = StreamSegment(first, end, size_bytes, stored.last_time)

    def go_on_at(self, offset: int) -> StreamSegment | None:
        """Leave out the offsets before this one; the segment that is closed by that, if it holds something."""
        closed = self.close() if self._open.end > self._open.first else None
        self._open = self._open._replace(first=offset, end=offset)
        return closed

    def add(self, size_bytes: int, time: int) -> None:
        """A message comes to the segment that is being written."""
        first, end, size, _ = self._open
        self._open = StreamSegment(first, end + 1, size + size_bytes, time)

    def close(self) -> StreamSegment:
        """Begin another segment; the one that is closed by that."""
        closed = self._open
        self._close(closed)
        self._open = StreamSegment(closed.end, closed.end, 0, closed.last_time)
        return closed

    def drop(self, now: int) -> list[StreamSegment]:
        """Let go of what need not be kept any longer."""
        dropped = []
        while self._closed and self._too_much(self._closed[0], now):
            segment = self._closed.popleft()
            self._closed_size -= segment.size
            dropped.append(segment)
        return dropped

    def check(self) -> None:
        """Raise AssertionError unless each segment begins where the one before it ends, or far above."""
        segments = [*self._closed, self._open]
        gaps = [after.first - before.end for before, after in pairwise(segments)]
        assert all(gap == 0 or gap >= OFFSET_STRIDE for gap in gaps), f"segments: {segments}"
        assert all(segment.first <= segment.end for segment in segments), f"segments: {segments}"
        size = sum(segment.size for segment in self._closed)
        assert self._closed_size == size, f"closed segments have {size} bytes, {self._closed_size} are counted"

    def _close(self, segment: StreamSegment) -> None:
        self._closed.append(segment)
        self._closed_size += segment.size

    def _too_much(self, oldest: StreamSegment, now: int) -> bool:
        age, size = self._rules.max_age_milliseconds, self._rules.max_bytes
        too_old = age is not None and oldest.last_time < now - age
        return too_old or (size is not None and self._closed_size + self._open.size > size)
