"""Message segments: a run of one lane's messages in one LMDB value.

Each LMDB call from a thread releases and takes the interpreter lock, which costs more than the call while the main
thread is busy, and a small record costs a tree descent. So all messages that one commit brings to a lane are packed
into few large values. A segment is never appended to. Its settled messages are noted in a bitmap beside it (`Settled`).

Layout, all numbers big-endian:

    version      1 byte
    kinds        1 byte    bit 0: some bodies are shared; bit 1: some messages are not persistent
    count        2 bytes
    checksum     4 bytes   CRC32 of the four bytes above and of the index
    index        count entries of fixed size, ascending in position
    payload      for each entry: route, header, and the body unless it is shared

Entries have a fixed size, so a position is found by bisection in place. An entry's own CRC32 covers its payload: one
damaged message is set aside and the others of its segment stay readable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from zlib_ng.zlib_ng import crc32

from storage.batch import BLIND, DELAYED, PERSISTENT, Put
from storage.messages.small_records import Settled
from storage.record_frame import VERSION, unknown_version
from storage.storage_errors import StoreCorrupt

SEGMENT_BYTES: Final = 262_144
"""Size limit of a segment with more than one message."""

SEGMENT_MESSAGES: Final = 512
"""Message limit of a segment."""

SHARED: Final = 1
TRANSIENT: Final = 2

HEADER = struct.Struct(">BBHI")
ENTRY = struct.Struct(">QQQQIIIIIHH")

_PLAIN_ENTRY = struct.Struct(">QQ16xIIII4xHH")
"""ENTRY of a message that is not delayed, has a body of its own, and was never delivered."""
_PAYLOAD_BYTES = SEGMENT_BYTES - HEADER.size - ENTRY.size
"""Payload limit of a segment with one entry."""

_KINDS = struct.Struct(">BBH")
_POSITION = struct.Struct(">Q")


class SegmentEntry(NamedTuple):
    """A message's entry in the index. `due_at` is the due time of a delayed message, 0 for others.

    `delivery_count` is the count when the segment was written; a later one is in the bitmap beside it. `offset` is
    relative to the start of the segment's payload.
    """

    position: int
    expires_at: int
    due_at: int
    body_id: int
    checksum: int
    offset: int
    header_size: int
    body_size: int
    delivery_count: int
    flags: int
    route_size: int

    @property
    def payload_size(self) -> int:
        """Bytes of payload in the segment; a shared body is not in it."""
        return self.route_size + self.header_size + (0 if self.body_id else self.body_size)

    @property
    def kinds(self) -> int:
        """Kinds of this message: SHARED and TRANSIENT bits."""
        return (SHARED if self.body_id else 0) | (0 if self.flags & PERSISTENT else TRANSIENT)


class Cutter:
    """Cuts stored entries, ascending in position, into segments within the limits.

    For each message call `room`, which returns the offset of its payload, then `add`.
    """

    __slots__ = ("_first", "_index", "_kinds", "_offset", "_payload", "segments")

    def __init__(self) -> None:
        self.segments: list[tuple[int, bytes]] = []
        self._index: list[bytes] = []
        self._payload: list[bytes] = []
        self._offset = self._kinds = self._first = 0

    def room(self, position: int, size: int) -> int:
        """Return the offset for a payload of `size` bytes; begins a new segment if the current one is full."""
        count = len(self._index)
        if count == SEGMENT_MESSAGES or (count and self._offset + size > _PAYLOAD_BYTES - count * ENTRY.size):
            self._cut()
            count = 0
        if not count:
            self._first = position
        offset = self._offset
        self._offset = offset + size
        return offset

    def add(self, entry: bytes, payload: bytes, kinds: int) -> None:
        """Add a packed entry and its payload."""
        self._index.append(entry)
        self._payload.append(payload)
        self._kinds |= kinds

    def finish(self) -> list[tuple[int, bytes]]:
        """Return the segments, each with the position of its first message."""
        if self._index:
            self._cut()
        return self.segments

    def _cut(self) -> None:
        self.segments.append((self._first, _segment(self._kinds, self._index, self._payload)))
        self._index, self._payload, self._offset, self._kinds = [], [], 0, 0


def _segment(kinds: int, index: list[bytes], payload: list[bytes]) -> bytes:
    assert 0 < len(index) <= SEGMENT_MESSAGES, f"a segment of {len(index)} messages"
    head, entries = _KINDS.pack(VERSION, kinds, len(index)), b"".join(index)
    return b"".join((head, crc32(entries, crc32(head)).to_bytes(4, "big"), entries, *payload))


def pack(puts: Sequence[tuple[int, Put]]) -> Iterator[tuple[int, bytes]]:
    """Cut records into segments. Yields each with the position of its first message. All are delayed, or none.

    The messages of one publisher mostly share route and header: checksum and sizes of these are computed once per run.
    """
    pack_entry, checksum_of, delayed = _PLAIN_ENTRY.pack, crc32, puts[0][1][0].flags & DELAYED
    payload_max, entry_size = _PAYLOAD_BYTES, ENTRY.size
    index, payload = list[bytes](), list[bytes]()
    first, kinds, offset = puts[0][0], 0, 0
    route_before, header_before, flags_before = None, None, BLIND
    for position, (record, time) in puts:
        route, header, flags, body, body_id = record.route, record.header, record.flags, record.body, record.body_id
        # Identity is enough: equal parts in other objects only cost a further checksum. BCC keys are not in `header`.
        if header is not header_before or route is not route_before or flags != flags_before or flags & BLIND:
            route_before, header_before, flags_before = route, header, flags
            stored = record.stored_header if flags & BLIND else header
            checksum, route_size, stored_size = checksum_of(stored, checksum_of(route)), len(route), len(stored)
            kind, stored_flags = 0 if flags & PERSISTENT else TRANSIENT, flags & 0xFFFF
        body_size, count = len(body), len(index)
        size = route_size + stored_size + (0 if body_id else body_size)
        # A further entry takes its part of the limit too. A message beyond the limit gets a segment of its own.
        if count == SEGMENT_MESSAGES or (count and offset + size > payload_max - count * entry_size):
            yield first, _segment(kinds, index, payload)
            index, payload, first, kinds, offset = [], [], position, 0, 0
        if body_id or delayed:
            times = (record.expires_at, time) if delayed else (time, 0)
            whole = checksum if body_id else checksum_of(body, checksum)
            of_each = stored_size, body_size, 0, stored_flags, route_size
            index.append(ENTRY.pack(position, *times, body_id, whole, offset, *of_each))
            payload += (route, stored) if body_id else (route, stored, body)
            kinds |= kind | (SHARED if body_id else 0)
        else:  # nearly all messages: packed without the fields that are 0
            whole = checksum_of(body, checksum)
            index.append(pack_entry(position, time, whole, offset, stored_size, body_size, stored_flags, route_size))
            payload += route, stored, body
            kinds |= kind
        offset += size
    yield first, _segment(kinds, index, payload)


def repack(kept: Iterable[tuple[SegmentEntry, bytes]]) -> list[tuple[int, bytes]]:
    """Cut stored entries, with their payloads, into segments."""
    cutter = Cutter()
    for entry, payload in kept:
        moved = entry._replace(offset=cutter.room(entry.position, len(payload)))
        cutter.add(ENTRY.pack(*moved), payload, entry.kinds)
    return cutter.finish()


def kinds_of(value: bytes) -> int:
    """Return the kinds in the bytes of a segment: SHARED and TRANSIENT bits."""
    return value[1]


def likely_loss(value: bytes | memoryview, bitmap: bytes | memoryview | None) -> tuple[int, int]:
    """Estimate the live persistent messages of an unreadable segment, and the bytes of their bodies.

    It reads the damaged index: most damage changes a small part of it.
    """
    count = int.from_bytes(value[2:4], "big")
    if not count or len(value) < HEADER.size + count * ENTRY.size:
        return 1, 0
    settled = readable_bitmap(bitmap, count)
    index = value[HEADER.size : HEADER.size + count * ENTRY.size]
    lost = [
        entry.body_size
        for slot, entry in enumerate(map(SegmentEntry._make, ENTRY.iter_unpack(index)))
        if entry.flags & PERSISTENT and not (settled and slot in settled)
    ]
    return len(lost), min(sum(lost), len(value)) if not value[1] & SHARED else sum(lost)


class MessageSegment:
    """Reads one segment in place; its bytes must stay valid meanwhile.

    Raises StoreCorrupt if the index is damaged, or of an unknown version.
    """

    __slots__ = ("count", "kinds", "value")

    def __init__(self, value: bytes | memoryview) -> None:
        if len(value) < HEADER.size:
            raise StoreCorrupt(f"a segment is cut short at {len(value)} bytes")
        self.kinds: int
        self.count: int
        version, self.kinds, self.count, checksum = HEADER.unpack_from(value)
        if version != VERSION:
            raise unknown_version("a segment", version)
        self.value = value
        index = value[HEADER.size : self.payload_at]
        if not self.count or crc32(index, crc32(value[: _KINDS.size])) != checksum:
            raise StoreCorrupt(f"the index of a segment of {self.count} messages fails its checksum")

    @property
    def payload_at(self) -> int:
        """Offset of the payload in the segment."""
        return HEADER.size + self.count * ENTRY.size

    @property
    def index(self) -> bytes | memoryview:
        """The packed entries."""
        return self.value[HEADER.size : self.payload_at]

    @property
    def last(self) -> int:
        """The highest position."""
        return self.position(self.count - 1)

    def position(self, slot: int) -> int:
        """Return the position of the message in a slot."""
        found: int = _POSITION.unpack_from(self.value, HEADER.size + slot * ENTRY.size)[0]
        return found

    def entry(self, slot: int) -> SegmentEntry:
        """Return the index entry in a slot."""
        return SegmentEntry._make(ENTRY.unpack_from(self.value, HEADER.size + slot * ENTRY.size))

    def entries(self, slots: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield the index entries in slots, as plain tuples."""
        if isinstance(slots, range) and slots.step == 1:
            return ENTRY.iter_unpack(
                self.value[HEADER.size + slots.start * ENTRY.size : HEADER.size + slots.stop * ENTRY.size]
            )
        return (ENTRY.unpack_from(self.value, HEADER.size + slot * ENTRY.size) for slot in slots)

    def payloads(self, slots: Sequence[int]) -> tuple[int, bytes]:
        """Copy the payloads from the first to the last of ascending slots.

        Returns the offset of the first, and the bytes.
        """
        first, last = self.entry(slots[0]), self.entry(slots[-1])
        at = self.payload_at
        return first.offset, bytes(self.value[at + first.offset : at + last.offset + last.payload_size])

    def weight(self, slot: int) -> tuple[int, int]:
        """Return the bytes of a message in the segment, and the number of its shared body or 0."""
        _p, _e, _d, body_id, _c, _o, header_size, body_size, _n, _f, route_size = ENTRY.unpack_from(
            self.value, HEADER.size + slot * ENTRY.size
        )
        return ENTRY.size + route_size + header_size + (0 if body_id else body_size), body_id

    def weight_of_run(self, slots: range) -> int:
        """Return the bytes of a run of messages without shared bodies."""
        last = self.entry(slots[-1])
        return len(slots) * ENTRY.size + last.offset + last.payload_size - self.entry(slots[0]).offset

    def run(self, positions: Sequence[int]) -> range:
        """Return the run of slots of consecutive positions, ascending and distinct; empty if they are no run here.

        Most are, and then only the first and the last are looked up.
        """
        count = len(positions)
        first = self.find(positions[0]) if count and positions[-1] - positions[0] == count - 1 else -1
        end = first + count
        found = first >= 0 and end <= self.count and self.position(end - 1) == positions[-1]
        return range(first, end) if found else range(0)

    def slots(self, positions: Iterable[int]) -> dict[int, int]:
        """Return the slots of ascending positions, by position; those that are not here are missing."""
        found, slot = dict[int, int](), -1
        for position in positions:
            slot = self.find(position, slot + 1)
            if slot >= 0:
                found[position] = slot
        return found

    def slot_from(self, position: int) -> int:
        """Return the first slot whose position is not below this one; `count` if there is none."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self.position(middle) < position:
                low = middle + 1
            else:
                high = middle
        return low

    def find(self, position: int, guess: int = 0) -> int:
        """Return the slot of a position, -1 if it is not here. `guess` is tried first: acks mostly come in order."""
        if guess < self.count and self.position(guess) == position:
            return guess
        slot = self.slot_from(position)
        return slot if slot < self.count and self.position(slot) == position else -1

    def payload(self, entry: SegmentEntry) -> bytes:
        """Copy a message's payload."""
        at = self.payload_at + entry.offset
        return bytes(self.value[at : at + entry.payload_size])

    def live(self, settled: Settled) -> Iterator[SegmentEntry]:
        """Yield the entries that are not settled, with the delivery counts of the bitmap."""
        counts = settled.deliveries
        for slot, values in enumerate(ENTRY.iter_unpack(self.index)):
            if slot not in settled:
                entry = SegmentEntry._make(values)
                yield entry._replace(delivery_count=counts[slot]) if slot in counts else entry

    def settled(self, record: bytes | memoryview | None) -> Settled:
        """Decode the bitmap beside this segment; `record` is None if nothing is settled.

        A damaged one counts as nothing settled: a message twice is better than not at all.
        """
        return readable_bitmap(record, self.count) or Settled.none(self.count, len(self.value) - HEADER.size)


def readable_bitmap(record: bytes | memoryview | None, count: int) -> Settled | None:
    """Decode the bitmap of a segment of `count` messages; None if there is none that can be read."""
    if record is None:
        return None
    try:
        return Settled.decode(record, count)
    except StoreCorrupt:
        return None
