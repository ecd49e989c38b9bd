"""Keys of LMDB records: a character for the kind, then big-endian numbers, so that byte order is queue order.

All records are in LMDB's unnamed database. The kinds, with their values:

    I                            identity: UUID of the store's owner, and number of the boot
    L queue lane                 a lane's counters
    S queue lane first           a segment: messages in ascending positions, none below `first`
    s queue lane first           settled slots of that segment; without a record: none
    B body                       a body that several messages share
    b body                       number of messages that refer to it
    W queue lane                 a sweep in progress: messages that are dead and still in their segments
    T queue lane                 the lane has held transient messages
    D queue                      a deletion in progress
    C queue lane first           a closed segment of a stream: nothing is added to it any more
    X queue lane position        raw bytes that failed their checksum
    E                            the last event recorded before the last commit
    M                            mark of the journal: its salt, and up to which batch LMDB has it
    J                            the same in the journal's first format
    O                            the backup that the store was restored from
    A boot                       batches whose loss was accepted when that boot began
"""

from __future__ import annotations

import struct

IDENTITY = b"I"
LANE = b"L"
SEGMENT = b"S"
SETTLED = b"s"
BODY = b"B"
REFERENCES = b"b"
SWEEP = b"W"
TRANSIENT_MARK = b"T"
DELETION = b"D"
CLOSED_SEGMENT = b"C"
SET_ASIDE = b"X"
LAST_EVENT = b"E"
JOURNAL_MARK = b"M"
FIRST_FORMAT_APPLIED = b"J"
ORIGIN = b"O"
ACCEPTED_LOSS = b"A"

POSITION_END = (1 << 64) - 1
"""No message has a position this high."""

_NUMBER = struct.Struct(">cQ")
_LANE = struct.Struct(">cQB")
_PLACE = struct.Struct(">cQBQ")


def number_key(kind: bytes, number: int) -> bytes:
    """The key of a record that belongs to one queue or one body."""
    return _NUMBER.pack(kind, number)


def lane_key(kind: bytes, queue_id: int, lane: int) -> bytes:
    """The key of a record that belongs to one lane of a queue."""
    return _LANE.pack(kind, queue_id, lane)


def place_key(kind: bytes, queue_id: int, lane: int, position: int) -> bytes:
    """The key of a record that belongs to one place in a lane."""
    return _PLACE.pack(kind, queue_id, lane, position)


def number_of(key: bytes) -> int:
    """The queue or body that a key belongs to."""
    number: int = _NUMBER.unpack_from(key)[1]
    return number


def lane_of(key: bytes) -> tuple[int, int]:
    """The queue and lane that a key belongs to."""
    _kind, queue_id, lane = _LANE.unpack_from(key)
    return queue_id, lane


def place_of(key: bytes) -> tuple[int, int, int]:
    """The queue, lane and position that a key belongs to."""
    _kind, queue_id, lane, position = _PLACE.unpack(key)
    return queue_id, lane, position
