"""Look-ups by key: the segment that may hold a position, and records that share a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from storage.messages.keys import POSITION_END, SEGMENT, lane_key, lane_of, place_key, place_of

if TYPE_CHECKING:
    import lmdb

_LANE_PREFIX = 10  # kind, queue, lane


def seek_segment(cursor: lmdb.Cursor[memoryview], queue_id: int, lane: int, position: int) -> bytes | None:
    """Set the cursor on the lane's last segment that starts at or before a position. Returns its key; None without one.

    Segments of a lane never overlap: no other segment can hold the position.
    """
    wanted = place_key(SEGMENT, queue_id, lane, position)
    found = cursor.set_range(wanted)
    if not found or bytes(cursor.key()) != wanted:
        found = cursor.prev() if found else cursor.last()
    key = bytes(cursor.key()) if found else b""
    return key if key[:_LANE_PREFIX] == wanted[:_LANE_PREFIX] else None


def records(txn: lmdb.Transaction[memoryview], prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, memoryview]]:
    """Yield the records whose keys have a prefix, ascending, from `start` on.

    A write to the transaction while this runs makes the values invalid.
    """
    cursor = txn.cursor()
    found = cursor.set_range(max(start, prefix))
    while found:
        key = bytes(cursor.key())
        if not key.startswith(prefix):
            return
        yield key, cursor.value()
        found = cursor.next()


def next_first(cursor: lmdb.Cursor[memoryview], queue_id: int, lane: int, position: int) -> int:
    """First position of the lane's next segment after a position; POSITION_END if there is none."""
    if cursor.set_range(place_key(SEGMENT, queue_id, lane, position + 1)):
        key = bytes(cursor.key())
        if key.startswith(lane_key(SEGMENT, queue_id, lane)):
            return place_of(key)[2]
    return POSITION_END


def lanes_with_segments(txn: lmdb.Transaction[memoryview]) -> list[tuple[int, int]]:
    """Queue and lane of every lane with segments, found by jumping from lane to lane."""
    lanes, start = [], SEGMENT
    while (found := next(records(txn, SEGMENT, start), None)) is not None:
        lanes.append(lane_of(found[0]))
        start = lane_key(SEGMENT, *lanes[-1]) + POSITION_END.to_bytes(8, "big") + b"\xff"
    return lanes
