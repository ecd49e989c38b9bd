"""A stream's promises to publishers and readers: an offset is its message's for good, and there are no holes."""

from __future__ import annotations

from typing import Any

from tests.simulation.copies import Broken, Publication


class StreamPromises:
    """One stream that never lets anything go."""

    def __init__(self) -> None:
        self.sent: dict[int, Publication] = {}
        self.offsets: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self.confirmed: set[int] = set()

    def seen(self, offset: int, body: bytes) -> None:
        """A reader was given a message."""
        number = int(body.partition(b":")[0])
        publication = self.sent.get(number)
        if publication is None or publication.body != body:
            raise Broken(f"the stream has {body[:20]!r} at {offset}, which nobody has published like this")
        if self.offsets.setdefault(offset, number) != number:
            raise Broken(f"offset {offset} was message {self.offsets[offset]}, and is {number}")
        if self._places.setdefault(number, offset) != offset:
            raise Broken(f"message {number} is at offsets {self._places[number]} and {offset}")

    def check_whole(self) -> None:
        """All of it has been read from the beginning."""
        if sorted(self.offsets) != list(range(len(self.offsets))):
            raise Broken("the stream has holes")
        missing = sorted(self.confirmed - self._places.keys())
        if missing:
            raise Broken(f"confirmed messages {missing[:5]} are not in the stream")
        last: dict[object, int] = {}
        for offset in range(len(self.offsets)):
            publication = self.sent[self.offsets[offset]]
            if last.get(publication.sender, 0) > publication.number:
                raise Broken(f"message {publication.number} stands behind {last[publication.sender]} in the stream")
            last[publication.sender] = publication.number


class Reading:
    """A consumer of the stream. `next` is the offset that must come, None before the first."""

    def __init__(self, stream: StreamPromises, start: int | None, prefetch: int) -> None:
        self._stream = stream
        self.next = start
        self.prefetch = prefetch
        self.out = 0

    def delivered(self, properties: Any, body: bytes) -> None:
        """The broker has sent a message of the stream."""
        offset = properties.headers["x-stream-offset"].value
        if self.next is not None and offset != self.next:
            raise Broken(f"a reader that is at {self.next} is given offset {offset}")
        self.next = offset + 1
        self.out += 1
        if self.out > self.prefetch:
            raise Broken(f"a reader holds {self.out} messages, its prefetch is {self.prefetch}")
        self._stream.seen(offset, body)

    def settled(self) -> None:
        """The broker has taken in that one of its messages is acknowledged."""
        self.out -= 1
