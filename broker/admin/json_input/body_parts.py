"""A body of many MiB in parts, each freed as soon as it is read."""

from __future__ import annotations

from collections import deque
from itertools import islice

PART_BYTES = 64 * 1024


class BodyParts:
    """Bytes that are appended at the end and read from the start.

    One bytearray would be copied while it grows, and would keep its memory until all of it is read. What comes in
    smaller pieces is gathered in parts of `part_bytes`, so that pieces of a byte each take no more memory than others.
    """

    def __init__(self, content: bytes | bytearray = b"", *, part_bytes: int = PART_BYTES) -> None:
        self._part_bytes = part_bytes
        self._parts: deque[bytes | bytearray] = deque()
        self._start = 0  # of what is left in the first part
        self._size = 0
        self.append(content)

    def __len__(self) -> int:
        return self._size

    def append(self, piece: bytes | bytearray) -> None:
        """Add bytes at the end."""
        self._size += len(piece)
        last = self._parts[-1] if self._parts else b""
        if isinstance(last, bytearray) and len(last) < self._part_bytes:
            last += piece
        elif piece:
            self._parts.append(piece if len(piece) >= self._part_bytes else bytearray(piece))

    def first(self, size: int) -> bytes:
        """Return the first `size` bytes, or all if there are fewer, and leave them."""
        if not self._parts:
            return b""
        found = bytes(self._parts[0][self._start : self._start + size])
        for part in islice(self._parts, 1, None):
            if len(found) == size:
                break
            found += part[: size - len(found)]
        return found

    def drop(self, size: int) -> None:
        """Remove the first `size` bytes."""
        self._size -= size
        self._start += size
        while self._parts and self._start >= len(self._parts[0]):
            self._start -= len(self._parts.popleft())

    def take_all(self) -> bytearray:
        """Remove all bytes and return them in one piece."""
        whole = bytearray()
        while self._size:
            piece = self.first(self._part_bytes)
            whole += piece
            self.drop(len(piece))
        return whole
