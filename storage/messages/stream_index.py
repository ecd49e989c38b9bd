"""Index of streams in the store: end, closed segments, and search by time of publishing.

A stream is a lane whose positions are offsets, dense from 0, and whose messages leave only at the front, by purges.
Each of its messages is stored with the time at which it was published, which never falls from one to the next.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from storage.batch import ClosedStreamSegment, StreamHistory
from storage.messages.key_lookup import records, seek_segment
from storage.messages.keys import CLOSED_SEGMENT, POSITION_END, lane_key, place_key, place_of
from storage.messages.message_segments import MessageSegment
from storage.messages.small_records import decode_closed_segment, encode_closed_segment
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb

    from storage.journal.journal import Journal
    from storage.messages.message_writer import MessageWriter


def close_segment(writer: MessageWriter, segment: ClosedStreamSegment) -> None:
    """Record a closed segment of a stream."""
    key = place_key(CLOSED_SEGMENT, segment.queue_id, segment.lane, segment.first)
    writer.txn.put(key, encode_closed_segment(segment))


def forget_segments(writer: MessageWriter, queue_id: int, lane: int, floor: int) -> None:
    """Delete the records of closed segments below `floor`, where the stream begins from now on."""
    found = (key for key, _value in records(writer.txn, lane_key(CLOSED_SEGMENT, queue_id, lane)))
    for key in list(takewhile(lambda key: place_of(key)[2] < floor, found)):
        writer.txn.delete(key)


class Streams:
    """Read access to the streams of a message store, for any thread."""

    def __init__(self, environment: lmdb.Environment, journal: Journal) -> None:
        self._environment = environment
        self._journal = journal

    def history(self, queue_id: int, lane: int) -> StreamHistory:
        """Read a stream's readable closed segments, and its last message, as of the start of the broker."""
        with self._environment.begin(buffers=True) as txn:
            return StreamHistory(_closed(txn, queue_id, lane), _last(txn, queue_id, lane))

    def find(self, queue_id: int, lane: int, time: int, first: int, end: int) -> int:
        """Return the first position in [first, end) whose message was published at `time` or later; else `end`.

        If records are damaged, the answer may be too low, never too high.
        """
        view = self._journal.view(queue_id, lane, first - 1, end)
        unapplied = view.puts if view else {}
        limit = next(iter(unapplied), end)
        with self._environment.begin(buffers=True) as txn:
            found = _find(txn, queue_id, lane, time, first, limit)
        if found < limit:
            return found
        return next((position for position, (_record, published) in unapplied.items() if published >= time), end)


def _closed(txn: lmdb.Transaction[memoryview], queue_id: int, lane: int) -> tuple[ClosedStreamSegment, ...]:
    closed = []
    for key, value in records(txn, lane_key(CLOSED_SEGMENT, queue_id, lane)):
        try:
            closed.append(decode_closed_segment(place_of(key), value))
        except StoreCorrupt:  # its messages count as part of the segment after it
            continue
    return tuple(closed)


def _find(txn: lmdb.Transaction[memoryview], queue_id: int, lane: int, time: int, first: int, end: int) -> int:
    cursor, low, high = txn.cursor(), first, end
    while low < high:
        middle = (low + high) // 2
        key = seek_segment(cursor, queue_id, lane, middle)
        if key is None:
            low = middle + 1
            continue
        try:
            segment = MessageSegment(cursor.value())
        except StoreCorrupt:
            high = middle
            continue
        if _time(segment, segment.count - 1) < time:
            low = max(middle, segment.last) + 1
        elif _time(segment, 0) >= time:
            high = min(middle, segment.position(0))
        else:
            return max(low, min(high, segment.position(_first_slot(segment, time))))
    return min(end, low)


def _first_slot(segment: MessageSegment, time: int) -> int:
    """Return the first slot whose message was published at `time` or later; there must be one."""
    low, high = 0, segment.count - 1
    while low < high:
        middle = (low + high) // 2
        if _time(segment, middle) < time:
            low = middle + 1
        else:
            high = middle
    return low


def _time(segment: MessageSegment, slot: int) -> int:
    return segment.entry(slot).expires_at


def _last(txn: lmdb.Transaction[memoryview], queue_id: int, lane: int) -> tuple[int, int] | None:
    cursor, position = txn.cursor(), POSITION_END
    while (key := seek_segment(cursor, queue_id, lane, position)) is not None:
        try:
            segment = MessageSegment(cursor.value())
            return segment.last, _time(segment, segment.count - 1)
        except StoreCorrupt:
            position = place_of(key)[2] - 1
            if position < 0:
                break
    return None
