"""The bytes of the event log: segments of blocks. The broker writes them by this module, and all readers read by it.

A segment is a file: a mark, a format version, then blocks. A block is a head - the size of what follows, its checksum,
the number of its first event, how many events it holds - and a zlib-compressed MessagePack array of records. The
meaning of a record is defined by its writer and its readers. Events are numbered from 1 in each boot; blocks of one
segment ascend, and where one does not begin with the number behind its forerunner's last, events are missing.

A segment that is being written is named `_tmp.NODE-BOOT-FIRST`; one that is sealed never changes again, and its
name says what it holds: `NODE-BOOT-FIRST-LAST.events`. Names of one node sort by age.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MARK = b"leveret-events\n\x00"
VERSION = 2
READABLE = (1, 2)
"""From version 2 on a record of a kind that is unknown stands for one event, and further values are passed over."""

OFFSETS_END = 1 << 40
"""Positions below it are offsets of a stream, which say nothing of the message's number."""

_HEAD = struct.Struct(">IIQI")
"""Size of the payload, CRC32 of the rest of this head and the payload, first event, number of events."""
_CHECKED = struct.Struct(">QI")
_VERSION = struct.Struct(">H")
START = MARK + _VERSION.pack(VERSION)

LEVEL = 1
"""Of zlib's compression: repeated names and numbers shrink by the most part, at little cost."""

_NAME = re.compile(
    r"(?P<node>[A-Za-z0-9._@-]{1,100})-(?P<boot>[0-9]{8})-(?P<first>[0-9]{16})-(?P<last>[0-9]{16})\.events"
)
"""Never a path, and short enough for any file system: names of segments come from readers elsewhere, too."""
_UNSEALED = re.compile(r"_tmp\.(?P<node>.+)-(?P<boot>\d{8})-(?P<first>\d{16})")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._@-]+")
_NODE_CHARACTERS = 100


class SegmentError(ValueError):
    """A file is no segment, one of an unknown version, or damaged; the message says which."""


class DamageError(SegmentError):
    """A segment is damaged, or cut short."""


class SegmentName(NamedTuple):
    """What a sealed segment's name says: the events from `first` to `last` of one boot of a node."""

    node: str
    boot: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.node}-{self.boot:08}-{self.first:016}-{self.last:016}.events"


class Block(NamedTuple):
    """A block as it lies in a file. `end` is where the next one begins."""

    first: int
    events: int
    payload: bytes
    end: int


def node_name(name: str) -> str:
    """A node's name as file names have it."""
    return _NOT_IN_NAMES.sub("_", name)[:_NODE_CHARACTERS] or "_"


def parse_name(name: str) -> SegmentName | None:
    """What a file's name says of a sealed segment; None for a name of something else."""
    found = _NAME.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), int(found["last"]))


def unsealed_name(node: str, boot: int, first: int) -> str:
    """What a segment is called while it is written. Spark and others pass over names that begin like this."""
    return f"_tmp.{node}-{boot:08}-{first:016}"


def parse_unsealed(name: str) -> SegmentName | None:
    """What the name of a segment says that was never sealed; its `last` is unknown and 0."""
    found = _UNSEALED.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), 0)


def encode_block(records: bytes, first: int, events: int) -> bytes:
    """A block, head and all, of MessagePack bytes."""
    return with_head(zlib.compress(records, LEVEL), first, events)


def with_head(payload: bytes, first: int, events: int) -> bytes:
    """A payload behind its head."""
    numbers = _CHECKED.pack(first, events)
    return _HEAD.pack(len(payload), zlib.crc32(payload, zlib.crc32(numbers)), first, events) + payload


def blocks(data: bytes, damaged: list[int] | None = None) -> Iterator[Block]:
    """The blocks of a segment. Raises SegmentError for bytes that are no segment, or one of an unknown version.

    Raises DamageError behind the last whole block; or puts into `damaged` where damage is, and goes on behind it, as
    far as that can be found.
    """
    if not data.startswith(MARK) or len(data) < len(START):
        raise SegmentError("not a segment of an event log")
    (version,) = _VERSION.unpack_from(data, len(MARK))
    if version not in READABLE:
        raise SegmentError(f"a segment of format version {version}; this release reads up to {VERSION}")
    yield from blocks_from(data, len(START), damaged)


def blocks_from(data: bytes, at: int, damaged: list[int] | None = None) -> Iterator[Block]:
    """The blocks from a byte on; as `blocks` does where there is damage."""
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


def sealed_segments(directory: Path) -> list[SegmentName]:
    """The sealed segments in a directory, oldest first."""
    names = (parse_name(path.name) for path in directory.iterdir())
    return sorted(name for name in names if name is not None)
