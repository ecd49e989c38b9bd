"""Small LMDB records: everything but message segments and bodies. One class or pair of functions for each kind.

`record_frame` has the frame that all of them share, `keys` the kinds, docs/storage-format.md the payloads.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from storage.batch import COUNTER_BITS, PERSISTENT, ClosedStreamSegment, LaneCounters
from storage.record_frame import VERSION, frame, unframe
from storage.storage_errors import StoreCorrupt, StoreIncompatible

_NUMBER = struct.Struct(">Q")
_IDENTITY = struct.Struct(">8s16sQ")
_COUNTERS = struct.Struct(">QQQQ")
_SETTLED = struct.Struct(">IQ")
_DELIVERIES = struct.Struct(">HI")
_SWEEP = struct.Struct(">QQQ")
_CLOSED = struct.Struct(">QQQ")
_NUMBER_IN_BOOT = struct.Struct(">QQ")
_LOSS = struct.Struct(">QQQ")

MAGIC = b"leveret\x00"
UUID_BYTES = 16


def _unpack(layout: struct.Struct, payload: bytes, what: str) -> tuple[int, ...]:
    if len(payload) < layout.size:
        raise StoreCorrupt(f"{what} is cut short at {len(payload)} bytes")
    return layout.unpack_from(payload)


class StoreIdentity(NamedTuple):
    """UUID of the broker that owns the store, and number of times that it was opened for writing."""

    uuid: bytes
    boot: int

    def encode(self) -> bytes:
        """Return the record's bytes."""
        assert len(self.uuid) == UUID_BYTES, f"a UUID of {len(self.uuid)} bytes would be cut or padded"
        return frame(_IDENTITY.pack(MAGIC, self.uuid, self.boot))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> StoreIdentity:
        """Read the record. Raises StoreIncompatible for a store of something else, or of an unknown version."""
        if data and data[0] != VERSION:
            raise StoreIncompatible(
                f"the store has format version {data[0]}, this release reads version {VERSION}: "
                "open the store with the release that wrote it, or a newer one"
            )
        payload = unframe(data, "the store's identity")
        if len(payload) != _IDENTITY.size or not payload.startswith(MAGIC):
            raise StoreIncompatible("the LMDB environment is not a message store of Leveret: choose another directory")
        _magic, uuid, boot = _IDENTITY.unpack(payload)
        return cls(uuid, boot)


def encode_counters(counters: LaneCounters) -> bytes:
    """Encode a lane's counters."""
    return frame(_COUNTERS.pack(*counters))


def decode_counters(data: bytes | memoryview) -> LaneCounters:
    """Decode a lane's counters. Raises StoreCorrupt."""
    what = "a lane's counters"
    return LaneCounters(*_unpack(_COUNTERS, unframe(data, what), what))


def encode_closed_segment(segment: ClosedStreamSegment) -> bytes:
    """Encode a closed stream segment, without queue, lane and first position, which are in its key."""
    assert segment.first < segment.end, f"a closed stream segment from {segment.first} to {segment.end} is empty"
    return frame(_CLOSED.pack(segment.end, segment.bytes, segment.last_time))


def decode_closed_segment(place: tuple[int, int, int], data: bytes | memoryview) -> ClosedStreamSegment:
    """Decode a closed stream segment from its place (queue, lane, first position) and its record.

    Raises StoreCorrupt.
    """
    what = "a closed segment of a stream"
    return ClosedStreamSegment(*place, *_unpack(_CLOSED, unframe(data, what), what))


def encode_number(number: int) -> bytes:
    """Encode a record of one number."""
    return frame(_NUMBER.pack(number))


def decode_number(data: bytes | memoryview, what: str) -> int:
    """Decode a record of one number. Raises StoreCorrupt, which names it as `what`."""
    return _unpack(_NUMBER, unframe(data, what), what)[0]


class Settled:
    """The bitmap beside a message segment: settled slots, and number and bytes of the live messages.

    `deliveries` has delivery counts by slot, of messages whose count has grown since the segment was written.
    """

    __slots__ = ("bits", "deliveries", "live", "live_bytes")

    def __init__(self, bits: bytearray, live: int, live_bytes: int, deliveries: Iterable[tuple[int, int]] = ()) -> None:
        self.bits = bits
        self.live = live
        self.live_bytes = live_bytes
        self.deliveries = dict(deliveries)

    def __contains__(self, slot: int) -> bool:
        return bool(self.bits[slot >> 3] & (1 << (slot & 7)))

    def add(self, slot: int, slot_bytes: int) -> None:
        """Settle a slot that is not settled yet."""
        self.bits[slot >> 3] |= 1 << (slot & 7)
        self.live -= 1
        self.live_bytes -= slot_bytes
        if self.deliveries:
            self.deliveries.pop(slot, None)

    def lacks(self, slots: range) -> bool:
        """True if none of the slots of a run is settled."""
        return not int.from_bytes(self.bits, "little") & _mask(slots)

    def add_run(self, slots: range, slots_bytes: int) -> None:
        """Settle a run of slots, none of which is settled yet."""
        bits = int.from_bytes(self.bits, "little") | _mask(slots)
        self.bits = bytearray(bits.to_bytes(len(self.bits), "little"))
        self.live -= len(slots)
        self.live_bytes -= slots_bytes
        assert self.live >= 0, f"slots {slots.start} to {slots.stop - 1} were settled already"
        if self.deliveries:
            self.deliveries = {slot: count for slot, count in self.deliveries.items() if slot not in slots}

    def encode(self) -> bytes:
        """Return the record's bytes."""
        assert 0 <= self.live <= len(self.bits) * 8, f"{self.live} live messages in {len(self.bits) * 8} slots"
        counts = b"".join(_DELIVERIES.pack(*count) for count in sorted(self.deliveries.items()))
        # Below 0 if damage has cut the segment short: its index is sound, and counts bytes that are gone.
        return frame(_SETTLED.pack(self.live, max(0, self.live_bytes)) + self.bits + counts)

    @classmethod
    def none(cls, slots: int, slots_bytes: int) -> Settled:
        """Return the bitmap of a segment without settled messages."""
        return cls(bytearray((slots + 7) >> 3), slots, slots_bytes)

    @classmethod
    def decode(cls, data: bytes | memoryview, slots: int) -> Settled:
        """Read the record beside a segment with this number of slots. Raises StoreCorrupt."""
        what = "a settled bitmap"
        payload = unframe(data, what)
        live, live_bytes = _unpack(_SETTLED, payload, what)
        counts_at = _SETTLED.size + ((slots + 7) >> 3)
        bits = bytearray(payload[_SETTLED.size : counts_at])
        settled = int.from_bytes(bits, "little").bit_count()
        if len(payload) < counts_at or (len(payload) - counts_at) % _DELIVERIES.size or live + settled != slots:
            raise StoreCorrupt(f"{what} does not fit its segment of {slots} messages")
        return cls(bits, live, live_bytes, _DELIVERIES.iter_unpack(payload[counts_at:]))


def _mask(slots: range) -> int:
    return (1 << len(slots)) - 1 << slots.start


class Sweep(NamedTuple):
    """A sweep: rule for the dead messages that are still in a lane's segments, and how far these were removed.

    Dead are messages below `floor` that are not among the survivors, and transient messages written before `boot`.
    `survivors` are packed positions, ascending. Segments before `cursor` have been swept.
    """

    floor: int
    boot: int
    cursor: int
    survivors: bytes

    def dead(self, position: int, flags: int) -> bool:
        """True if a message with this position and these flags is dead."""
        if position < self.floor and not self.survives(position):
            return True
        return not flags & PERSISTENT and position >> COUNTER_BITS < self.boot

    def survives(self, position: int) -> bool:
        """True if the position is among the survivors."""
        low, high = 0, len(self.survivors) // _NUMBER.size
        while low < high:
            middle = (low + high) // 2
            found = _NUMBER.unpack_from(self.survivors, middle * _NUMBER.size)[0]
            if found == position:
                return True
            low, high = (middle + 1, high) if found < position else (low, middle)
        return False

    @property
    def end(self) -> int:
        """Position from which on segments hold nothing dead."""
        return max(self.floor, self.boot << COUNTER_BITS)

    def encode(self) -> bytes:
        """Return the record's bytes."""
        assert len(self.survivors) % _NUMBER.size == 0, "survivors are whole positions"
        return frame(_SWEEP.pack(self.floor, self.boot, self.cursor) + self.survivors)

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Sweep:
        """Read the record. Raises StoreCorrupt."""
        what = "a sweep"
        payload = unframe(data, what)
        floor, boot, cursor = _unpack(_SWEEP, payload, what)
        if len(payload[_SWEEP.size :]) % _NUMBER.size:
            raise StoreCorrupt(f"{what} has survivors that are not whole positions")
        return cls(floor, boot, cursor, payload[_SWEEP.size :])


def pack_positions(positions: tuple[int, ...]) -> bytes:
    """Pack ascending positions for a sweep."""
    return struct.pack(f">{len(positions)}Q", *positions)


class NumberInBoot(NamedTuple):
    """A number that counts within a boot: the last event, or the last journal record that LMDB has applied."""

    boot: int
    number: int

    def encode(self) -> bytes:
        """Return the record's bytes."""
        return frame(_NUMBER_IN_BOOT.pack(*self))

    @classmethod
    def decode(cls, data: bytes | memoryview, what: str) -> NumberInBoot:
        """Read the record. Raises StoreCorrupt, which names it as `what`."""
        return cls(*_unpack(_NUMBER_IN_BOOT, unframe(data, what), what))


class AcceptedLoss(NamedTuple):
    """First and last batch whose loss was accepted at a start, and its time in wall-clock milliseconds."""

    first: int
    last: int
    time: int

    def encode(self) -> bytes:
        """Return the record's bytes."""
        assert self.first <= self.last, f"a loss of batches {self.first} to {self.last} is none"
        return frame(_LOSS.pack(*self))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> AcceptedLoss:
        """Read the record. Raises StoreCorrupt."""
        what = "an accepted loss"
        return cls(*_unpack(_LOSS, unframe(data, what), what))
