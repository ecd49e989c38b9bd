"""Repair at a start, before the first read: records whose damage would make a lane's counters wrong.

A queue reads as many messages as its lane's counters say. Damage to a bitmap or a sweep brings messages back that are
not counted; they would be delivered in the place of others, which would be lost. So such a record is deleted, as if
nothing had been settled or purged, and its lane is counted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.batch import COUNTER_BITS, LaneCounters
from storage.messages.key_lookup import records
from storage.messages.keys import LANE, SETTLED, SWEEP, lane_of
from storage.messages.segment_count import count_lane
from storage.messages.small_records import decode_counters, encode_counters
from storage.record_frame import unframe
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb


def repair(txn: lmdb.Transaction[memoryview], boot: int, *, recount: bool) -> None:
    """Remove damaged bitmaps and sweeps; count their lanes again, those with damaged counters, or all (`recount`)."""
    damaged = [key for kind in (SETTLED, SWEEP) for key, value in records(txn, kind) if not _sound(value)]
    for key in damaged:
        txn.delete(key)
    lanes = {lane_of(key) for key in damaged}
    wrong = [key for key, value in records(txn, LANE) if recount or not _sound(value) or lane_of(key) in lanes]
    for key in wrong:
        txn.put(key, encode_counters(_counted(txn, key, boot)))


def _sound(record: memoryview) -> bool:
    try:
        return bool(unframe(record, "a record"))  # an empty payload with a checksum of 0 was never written
    except StoreCorrupt:
        return False


def _counted(txn: lmdb.Transaction[memoryview], key: bytes, boot: int) -> LaneCounters:
    messages, size_bytes = count_lane(txn, *lane_of(key))
    try:
        return decode_counters(txn.get(key, b""))._replace(messages=messages, bytes=size_bytes)
    except StoreCorrupt:
        # All of them count as delivered: `redelivered` may be true by mistake, but never false by mistake.
        return LaneCounters(messages, size_bytes, boot << COUNTER_BITS, 0)
