"""Tail files of the event log: events that are in no block of an event segment yet.

The event loop appends events to a tail, uncompressed, with one write and without a sync, before their change is
committed or confirmed to a client. So they survive a kill of the process, but not a power failure. The log's thread
turns a tail into blocks of the segment that is being written, and removes it; after a kill the next start does the
same.

A tail is named `_tail.NODE-BOOT-FIRST`. It is a mark, then blocks like those of a segment, except that their
MessagePack arrays are not compressed.
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
"""Events after which a block of a segment ends. It may hold more: events written at once are not divided."""

_NAME = re.compile(r"_tail\.(?P<node>.+)-(?P<boot>\d{8})-(?P<first>\d{16})")
_ARRAY_16, _ARRAY_32 = 0xDC, 0xDD
"""First bytes of MessagePack arrays with more than 15 entries."""


def tail_name(node: str, boot: int, first: int) -> str:
    """File name of the tail whose first event is `first`."""
    return f"_tail.{node}-{boot:08}-{first:016}"


def parse_tail(name: str) -> SegmentName | None:
    """Parse the file name of a tail; its `last` is unknown and 0. None for any other name."""
    found = _NAME.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), 0)


class EventTailFile:
    """A tail that is being written. Raises OSError if it cannot be created."""

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
        """Append a MessagePack array of records. Raises OSError, and then nothing of it is in the file."""
        assert events > 0, "a block without events has no place in the numbering"
        self._append(with_head(records, first, events))
        self.events += events

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks that were appended."""
        return tail_blocks(os.pread(self._file.fileno(), self.size, 0))

    def remove(self) -> None:
        """Close and delete the file: its events are in a segment, or lost. Raises OSError."""
        self._file.close()
        self._path.unlink()

    def _append(self, data: bytes) -> None:
        append_whole(self._file, data, self.size)
        self.size += len(data)


def append_whole(file: BinaryIO, data: bytes, size: int) -> None:
    """Append to a file of `size` bytes. Raises OSError, and then the file has its size of before."""
    try:
        if file.write(data) != len(data):
            raise OSError("the disk is full")
    except OSError:
        file.truncate(size)
        file.seek(size)
        raise


def tail_blocks(data: bytes) -> Iterator[Block]:
    """Yield the complete blocks of a tail, up to the first one that a kill has cut short."""
    if data.startswith(MARK):
        with suppress(DamageError):
            yield from blocks_from(data, len(MARK))


def as_segment_blocks(found: Iterable[Block]) -> Iterator[tuple[bytes, int, int]]:
    """Merge blocks of tails into blocks of a segment. Yields bytes, first event and number of events of each."""
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
    """Merge consecutive blocks into one of a segment: the entries of their arrays, compressed."""
    parts, entries = list[bytes](), 0
    for block in found:
        count, begin = _array(block.payload)
        parts.append(block.payload[begin:])
        entries += count
    records = bytes([_ARRAY_32]) + entries.to_bytes(4, "big") + b"".join(parts)
    first, end = found[0].first, found[-1].first + found[-1].events
    assert end - first == sum(block.events for block in found), f"events are missing between {first} and {end}"
    return encode_block(records, first, end - first)


def _array(data: bytes) -> tuple[int, int]:
    """Return the number of entries of a MessagePack array, and the offset of the first."""
    if data[0] == _ARRAY_32:
        return int.from_bytes(data[1:5], "big"), 5
    if data[0] == _ARRAY_16:
        return int.from_bytes(data[1:3], "big"), 3
    return data[0] & 0x0F, 1
