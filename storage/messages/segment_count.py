"""Counting the messages of a lane in its segments, without its counters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from storage.batch import PERSISTENT
from storage.messages.key_lookup import records
from storage.messages.keys import SEGMENT, SETTLED, lane_key
from storage.messages.lane_reader import read_sweep
from storage.messages.message_segments import MessageSegment
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb


def count_lane(
    txn: lmdb.Transaction[memoryview], queue_id: int, lane: int, references: Counter[int] | None = None
) -> tuple[int, int]:
    """Count live persistent messages in a lane's readable segments, and the bytes of their bodies.

    `references` is increased by the references to each shared body.
    """
    sweep = read_sweep(txn, queue_id, lane)
    messages = size_bytes = 0
    for key, value in records(txn, lane_key(SEGMENT, queue_id, lane)):
        try:
            segment = MessageSegment(value)
        except StoreCorrupt:
            continue
        for entry in segment.live(segment.settled(txn.get(SETTLED + key[1:]))):
            if references is not None and entry.body_id:
                references[entry.body_id] += 1
            if entry.flags & PERSISTENT and not sweep.dead(entry.position, entry.flags):
                messages += 1
                size_bytes += entry.body_size
    return messages, size_bytes
