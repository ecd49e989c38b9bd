"""Retention of streams: by size and by age, one whole segment at a time.

A stream is cut into segments by size. A message beyond a full segment closes it, and then, as in RabbitMQ, the oldest
segments are dropped: those beyond the stream's maximum size, and those whose last message is too old. The open segment
is never dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from broker.entities.arguments.stream_arguments import StreamArguments
from storage.batch import OFFSET_STRIDE

MESSAGE_BYTES = 64
"""Size of a message beside its body, for retention."""


class StreamSegment(NamedTuple):
    """Offsets [first, end), bytes of their bodies, publish time of the last one in milliseconds."""

    first: int
    end: int
    bytes: int
    last_time: int

    @property
    def size(self) -> int:
        """Its size for retention, MESSAGE_BYTES for each message included."""
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
        """Apply other rules, from the next time that a segment is closed."""
        self._rules = rules

    @property
    def first(self) -> int:
        """The lowest offset of the stream."""
        return self._closed[0].first if self._closed else self._open.first

    @property
    def last(self) -> int:
        """The offset of the last message; without one, the next offset minus 1."""
        is_empty = self._open.end == self._open.first
        return (self._closed[-1] if self._closed and is_empty else self._open).end - 1

    @property
    def last_time(self) -> int:
        """Publish time of the last message, in milliseconds since the epoch."""
        return self._open.last_time

    @property
    def full(self) -> bool:
        """The open segment is full: the next message starts another one."""
        return self._open.end > self._open.first and self._open.size >= self._rules.segment_bytes

    def restore(self, closed: Iterable[StreamSegment], stored: StreamSegment, messages: int) -> None:
        """Take up the closed segments at a start, and the offsets, bytes and number of messages of the whole stream.

        A closed segment whose record is missing becomes part of the next one. A gap of at least OFFSET_STRIDE offsets,
        which restoring a backup leaves, belongs to no segment.
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
        """Go on at a higher offset, with a gap before it; return the segment that this closes, None if it is empty."""
        closed = self.close() if self._open.end > self._open.first else None
        self._open = self._open._replace(first=offset, end=offset)
        return closed

    def add(self, size_bytes: int, time: int) -> None:
        """Count a message in the open segment."""
        first, end, size, _ = self._open
        self._open = StreamSegment(first, end + 1, size + size_bytes, time)

    def close(self) -> StreamSegment:
        """Close the open segment, open the next one, and return the closed one."""
        closed = self._open
        self._close(closed)
        self._open = StreamSegment(closed.end, closed.end, 0, closed.last_time)
        return closed

    def drop(self, now: int) -> list[StreamSegment]:
        """Drop the oldest closed segments beyond the limits; return them."""
        dropped = []
        while self._closed and self._too_much(self._closed[0], now):
            segment = self._closed.popleft()
            self._closed_size -= segment.size
            dropped.append(segment)
        return dropped

    def check(self) -> None:
        """Raise AssertionError unless each segment starts at the end of the one before, or OFFSET_STRIDE above."""
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
