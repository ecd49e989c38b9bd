"""Keys: one letter for the kind of record, then big-endian numbers, so that byte order is queue order.

Everything lives in LMDB's one unnamed database. The kinds, with their values:

    I                            identity: the UUID of the store's owner, and how often it was opened
    L queue lane                 a lane's counters
    S queue lane first           a segment: messages in ascending positions, none below `first`
    s queue lane first           which slots of that segment are settled; no record: none
    B body                       a body that several messages share
    b body                       how many messages refer to it
    W queue lane                 a sweep in progress: what is dead although its segments still hold it
    T queue lane                 the lane has held messages that end with the process
    D queue                      a deletion in progress
    C queue lane first           a stream's segment that is closed: nothing is added to it any more
    X queue lane position        the raw bytes of what failed its checksum
    E                            the last event of the event log that was recorded before the last commit
    M                            which journal goes with it, and how far LMDB has it
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
