"""Bytes of an event segment: a mark, a format version, the segment's owner, then blocks.

A block is a head - size of the payload, checksum, number of its first event, number of its events - and a
zlib-compressed MessagePack array of records. `leveret_spark.events.event_columns` decodes the records. Events are
numbered from 1 in each boot; blocks of one segment ascend, and where a block does not begin with the number after the
last of the block before it, events are missing. A block without events is no part of the numbering: the first block of
a segment is one, and its payload names node and boot, so that a renamed file is noticed. Earlier segments
lack it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MARK = b"leveret-events\n\x00"
VERSION = 2
READABLE = (1, 2)
"""Versions that `blocks` reads. From 2 on a record of an unknown kind is one event; further values are ignored."""

OFFSETS_END = 1 << 40
"""Positions below it are offsets of a stream and do not carry a boot and an event number."""

_HEAD = struct.Struct(">IIQI")
"""Size of the payload, CRC32 of the rest of this head and the payload, first event, number of events."""
_CHECKED = struct.Struct(">QI")
_VERSION = struct.Struct(">H")
START = MARK + _VERSION.pack(VERSION)

LEVEL = 1
"""zlib compression level: 1 removes most of the repetition of names and numbers, at little cost."""


class SegmentError(ValueError):
    """Raised for a file that is not a segment, is of an unknown version, or is damaged; the message says which."""


class DamageError(SegmentError):
    """Raised for a segment that is damaged or cut short."""


class Block(NamedTuple):
    """One block of a file. `end` is the offset of the next one, in bytes."""

    first: int
    events: int
    payload: bytes
    end: int


def encode_block(records: bytes, first: int, events: int) -> bytes:
    """Build a block of compressed records from a MessagePack array."""
    return with_head(zlib.compress(records, LEVEL), first, events)


def with_head(payload: bytes, first: int, events: int) -> bytes:
    """Build a block from a payload that is stored as it is."""
    numbers = _CHECKED.pack(first, events)
    return _HEAD.pack(len(payload), zlib.crc32(payload, zlib.crc32(numbers)), first, events) + payload


def blocks(data: bytes, damaged: list[int] | None = None) -> Iterator[Block]:
    """Yield the blocks of a segment. Raises SegmentError for other bytes, and for an unknown version.

    Raises DamageError after the last whole block. With `damaged`, appends the offsets of damage to it instead, and
    continues with the next block that can be found.
    """
    if not data.startswith(MARK) or len(data) < len(START):
        raise SegmentError("not a segment of an event log")
    (version,) = _VERSION.unpack_from(data, len(MARK))
    if version not in READABLE:
        raise SegmentError(f"a segment of format version {version}; this release reads up to {VERSION}")
    yield from (block for block in blocks_from(data, len(START), damaged) if block.events)


def owned(node: str, boot: int) -> bytes:
    """Build the first block of a segment, which says whose it is: a node's by the name in file names, and a boot's."""
    return with_head(_owner(node, boot), 0, 0)


def is_owned(data: bytes, node: str, boot: int) -> bool:
    """Return whether a segment is of a node's boot, or does not say whose it is."""
    first = next(blocks_from(data, len(START), []), None)
    return first is None or first.events > 0 or first.payload == _owner(node, boot)


def is_foreign(data: bytes, first: int, last: int) -> bool:
    """Return whether a segment has events that are not among those from `first` to `last`, or does not begin there.

    Heads alone are read, and their checksums only where they are strange.
    """
    begins, ends = _ends(_heads(data))
    if begins in (0, first) and ends <= last:
        return False
    begins, ends = _ends((block.first, block.events) for block in blocks(data, []))
    return begins not in (0, first) or ends > last


def _ends(heads: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """Return the first event of some blocks, and the last; 0 for none."""
    begins = ends = 0
    for first, events in heads:
        begins, ends = begins or first, first + events - 1
    return begins, ends


def _heads(data: bytes) -> Iterator[tuple[int, int]]:
    at = len(START)
    while at + _HEAD.size <= len(data):
        size, _, first, events = _HEAD.unpack_from(data, at)
        at += _HEAD.size + size
        if events and at <= len(data):
            yield first, events


def _owner(node: str, boot: int) -> bytes:
    return f"{node}-{boot:08}".encode()


def blocks_from(data: bytes, at: int, damaged: list[int] | None = None) -> Iterator[Block]:
    """Yield the blocks from offset `at` on; damage is handled as in `blocks`."""
    end = len(data)
    while at + _HEAD.size <= end:
        size, checksum, first, events = _HEAD.unpack_from(data, at)
        start, following = at + _HEAD.size, at + _HEAD.size + size
        payload = data[start:following]
        if following <= end and zlib.crc32(payload, zlib.crc32(_CHECKED.pack(first, events))) == checksum:
            yield Block(first, events, payload, following)
        elif damaged is None:
            raise DamageError(f"damaged at byte {at}")
        else:
            damaged.append(at)
        at = following
    if at < end and damaged is None:
        raise DamageError(f"cut short at byte {at}")
    if at < end and damaged is not None:
        damaged.append(at)
