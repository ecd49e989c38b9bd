"""The tail of the event log: the events that are in no block of a segment yet, as the kernel has them.

A tail is a file to which the event loop appends events, uncompressed, with one write and without a sync, before what
they belong to is on disk or is said to a client. What the kernel has taken outlives the process, not the machine. The
log's thread turns a tail into blocks of the segment that is being written, and removes it; after a kill the next start
does the same.

A tail is named `_tail.NODE-BOOT-FIRST`. It begins with a mark, and goes on with blocks like those of a segment, except
that their MessagePack arrays are not compressed.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from leveret_events.segment_blocks import Block, DamageError, blocks_from, encode_block, with_head
from leveret_events.segment_names import SegmentName

MARK = b"leveret-tail\n\x00\x00\x01"
BLOCK_EVENTS = 8192
"""A block of a segment holds so many events, or a few more: what comes from the event loop at a time is not divided."""

_NAME = re.compile(r"_tail\.(?P<node>.+)-(?P<boot>\d{8})-(?P<first>\d{16})")
_ARRAY_16, _ARRAY_32 = 0xDC, 0xDD
"""The first bytes of MessagePack arrays with more than 15 entries."""


def tail_name(node: str, boot: int, first: int) -> str:
    """What a tail is called that begins with an event."""
    return f"_tail.{node}-{boot:08}-{first:016}"


def parse_tail(name: str) -> SegmentName | None:
    """What the name of a tail says; its `last` is unknown and 0. None for a name of something else."""
    found = _NAME.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), 0)


class EventTailFile:
    """A tail that is being written. Raises OSError when it cannot be made."""

    def __init__(self, directory: Path, node: str, boot: int, first: int) -> None:
        self._path = directory / tail_name(node, boot, first)
        self._file = self._path.open("x+b", buffering=0)
        self.began = time.monotonic()
        self.size = self.events = 0
        try:
            self._append(MARK)
        except OSError:
            self.remove()
            raise

    def add(self, records: bytes, first: int, events: int) -> None:
        """Have the kernel take over a MessagePack array of records. Raises OSError, and leaves nothing of it."""
        self._append(with_head(records, first, events))
        self.events += events

    def blocks(self) -> Iterator[Block]:
        """What was added."""
        return tail_blocks(os.pread(self._file.fileno(), self.size, 0))

    def remove(self) -> None:
        """What was added is in a segment, or given up. Raises OSError."""
        self._file.close()
        self._path.unlink()

    def _append(self, data: bytes) -> None:
        append_whole(self._file, data, self.size)
        self.size += len(data)


def append_whole(file: BinaryIO, data: bytes, size: int) -> None:
    """Append to a file of so many bytes. Raises OSError, and leaves nothing of it."""
    try:
        if file.write(data) != len(data):
            raise OSError("the disk is full")
    except OSError:
        file.truncate(size)
        file.seek(size)
        raise


def tail_blocks(data: bytes) -> Iterator[Block]:
    """The whole blocks at the beginning of a tail."""
    if data.startswith(MARK):
        with suppress(DamageError):
            yield from blocks_from(data, len(MARK))


def as_segment_blocks(found: Iterable[Block]) -> Iterator[tuple[bytes, int, int]]:
    """The blocks of tails as those of a segment: their bytes, the first event, and how many events."""
    gathered, first, events = list[Block](), 0, 0
    for block in found:
        if gathered and (events >= BLOCK_EVENTS or block.first != first + events):
            yield _as_one(gathered), first, events
            gathered = []
        if not gathered:
            first, events = block.first, 0
        gathered.append(block)
        events += block.events
    if gathered:
        yield _as_one(gathered), first, events


def _as_one(found: list[Block]) -> bytes:
    """Blocks without a hole between them."""
    parts, entries = list[bytes](), 0
    for block in found:
        count, begin = _array(block.payload)
        parts.append(block.payload[begin:])
        entries += count
    records = bytes([_ARRAY_32]) + entries.to_bytes(4, "big") + b"".join(parts)
    last = found[-1]
    return encode_block(records, found[0].first, last.first + last.events - found[0].first)


def _array(data: bytes) -> tuple[int, int]:
    """How many entries a MessagePack array has, and at which byte they begin."""
    if data[0] == _ARRAY_32:
        return int.from_bytes(data[1:5], "big"), 5
    if data[0] == _ARRAY_16:
        return int.from_bytes(data[1:3], "big"), 3
    return data[0] & 0x0F, 1
