"""Bytes of an event segment: a mark, a format version, then blocks.

A block is a head - size of the payload, checksum, number of its first event, number of its events - and a
zlib-compressed MessagePack array of records. `leveret_spark.events.event_columns` decodes the records. Events are
numbered from 1 in each boot; blocks of one segment ascend, and where a block does not begin with the number after the
last of the block before it, events are missing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
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
    yield from blocks_from(data, len(START), damaged)


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
