"""Purging and deleting any number of messages: one small record at once, removal in bounded steps later.

Committing a purge or the deletion of a queue costs one record, whether it concerns ten messages or ten million. From
then on readers see the messages as dead, and steps between other work remove them. The record stays until the last
step, so removal continues after a restart. Transient messages of earlier boots are removed in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE, Purge
from storage.messages.key_lookup import records
from storage.messages.keys import (
    CLOSED_SEGMENT,
    DELETION,
    LANE,
    POSITION_END,
    SEGMENT,
    SET_ASIDE,
    SWEEP,
    TRANSIENT_MARK,
    lane_key,
    lane_of,
    number_key,
    number_of,
    place_key,
    place_of,
)
from storage.messages.lane_reader import read_sweep
from storage.messages.message_segments import TRANSIENT
from storage.messages.message_writer import MessageWriter
from storage.messages.small_records import Sweep, decode_number, encode_number, pack_positions
from storage.messages.stream_index import forget_segments
from storage.record_frame import frame
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb


def purge(writer: MessageWriter, wanted: Purge) -> None:
    """Declare everything of a lane below the floor dead, except the survivors."""
    boot = read_sweep(writer.txn, wanted.queue_id, wanted.lane).boot
    survivors = pack_positions(tuple(sorted(wanted.survivors)))
    forget_segments(writer, wanted.queue_id, wanted.lane, wanted.floor)
    _write_sweep(writer, wanted.queue_id, wanted.lane, Sweep(wanted.floor, boot, 0, survivors))


def delete_queue(writer: MessageWriter, queue_id: int) -> None:
    """Declare everything of a queue dead."""
    writer.txn.put(number_key(DELETION, queue_id), encode_number(POSITION_END))


def mark_transient(writer: MessageWriter, queue_id: int, lane: int) -> None:
    """Note that a lane holds transient messages, for the next boot to sweep."""
    writer.txn.put(lane_key(TRANSIENT_MARK, queue_id, lane), frame(b""))


def begin_boot(txn: lmdb.Transaction[memoryview], boot: int) -> None:
    """Declare the transient data of earlier boots dead: transient queues, and transient messages of durable ones.

    Ids of transient queues are reused in each boot, so their deletion ends below this boot's positions.
    """
    writer = MessageWriter(txn, boot)
    transient = [key for kind in (LANE, SWEEP) for key, _value in records(txn, kind, number_key(kind, TRANSIENT_QUEUE))]
    for key in transient:
        txn.put(number_key(DELETION, number_of(key)), encode_number(boot << COUNTER_BITS))
        txn.delete(key)
    for key in [key for key, _value in records(txn, TRANSIENT_MARK)]:
        queue_id, lane = lane_of(key)
        txn.delete(key)
        if queue_id < TRANSIENT_QUEUE:
            sweep = read_sweep(txn, queue_id, lane)
            _write_sweep(writer, queue_id, lane, sweep._replace(boot=boot, cursor=0))


def pending(txn: lmdb.Transaction[memoryview]) -> bool:
    """True if dead records remain."""
    return any(True for kind in (DELETION, SWEEP) for _record in records(txn, kind))


def step(writer: MessageWriter, budget: int) -> bool:
    """Remove up to about `budget` dead records. True while more remain."""
    assert budget > 0, "a step without a budget would never end the removal"
    txn = writer.txn
    while budget > 0:
        deletion = next(records(txn, DELETION), None)
        if deletion:
            key, value = deletion
            queue_id = number_of(key)
            budget = _delete_some(writer, queue_id, _deletion_end(writer, queue_id, value), budget)
            continue
        sweeping = next(records(txn, SWEEP), None)
        if not sweeping:
            return False
        queue_id, lane = lane_of(sweeping[0])
        budget = _sweep_some(writer, queue_id, lane, read_sweep(txn, queue_id, lane), budget)
    return pending(txn)


def _deletion_end(writer: MessageWriter, queue_id: int, record: memoryview) -> int:
    """Position up to which a deletion deletes. A damaged one deletes only what is certainly dead."""
    try:
        return decode_number(record, "a deletion")
    except StoreCorrupt:
        return POSITION_END if queue_id < TRANSIENT_QUEUE else writer.boot << COUNTER_BITS


def _delete_some(writer: MessageWriter, queue_id: int, end: int, budget: int) -> int:
    """Remove a queue's segments below position `end`, then its other records. Returns the rest of the budget."""
    prefix = number_key(SEGMENT, queue_id)
    keys: list[bytes] = []
    for key, _value in records(writer.txn, prefix):
        if len(keys) == budget:
            break
        if place_of(key)[2] < end:
            keys.append(key)
    for key in keys:
        segment = writer.segment(key)
        if segment:
            writer.drop_segment(key, segment)
    if len(keys) == budget:
        return 0
    _delete_rest(writer, queue_id, end)
    return budget - len(keys) - 1


def _delete_rest(writer: MessageWriter, queue_id: int, end: int) -> None:
    txn = writer.txn
    if end == POSITION_END:
        for kind in (LANE, SWEEP, TRANSIENT_MARK, SET_ASIDE, CLOSED_SEGMENT):
            for key in [key for key, _value in records(txn, number_key(kind, queue_id))]:
                txn.delete(key)
    txn.delete(number_key(DELETION, queue_id))


def _sweep_some(writer: MessageWriter, queue_id: int, lane: int, sweep: Sweep, budget: int) -> int:
    """Settle the dead messages of a sweep from its cursor on. Returns the rest of the budget."""
    prefix, start = lane_key(SEGMENT, queue_id, lane), place_key(SEGMENT, queue_id, lane, sweep.cursor)
    keys: list[bytes] = []
    for key, _value in records(writer.txn, prefix, start):
        if len(keys) == budget or place_of(key)[2] >= sweep.end:
            break
        keys.append(key)
    for key in keys:
        _sweep_segment(writer, key, sweep)
    assert not keys or place_of(keys[0])[2] >= sweep.cursor, "a sweep goes forward only, or it would never end"
    if len(keys) == budget:  # there may be more: the next step continues behind the last one
        _write_sweep(writer, queue_id, lane, sweep._replace(cursor=place_of(keys[-1])[2] + 1))
        return 0
    writer.txn.delete(lane_key(SWEEP, queue_id, lane))
    return budget - len(keys) - 1


def _sweep_segment(writer: MessageWriter, key: bytes, sweep: Sweep) -> None:
    segment = writer.segment(key)
    if segment is None:
        return
    if segment.last < sweep.floor and not sweep.survivors:
        writer.drop_segment(key, segment)
    elif segment.position(0) < sweep.floor or segment.kinds & TRANSIENT:
        entries = map(segment.entry, range(segment.count))
        dead = [slot for slot, entry in enumerate(entries) if sweep.dead(entry.position, entry.flags)]
        writer.settle_slots(key, segment, dead)


def _write_sweep(writer: MessageWriter, queue_id: int, lane: int, sweep: Sweep) -> None:
    writer.txn.put(lane_key(SWEEP, queue_id, lane), sweep.encode())
