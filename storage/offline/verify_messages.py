"""Check of a stopped message store: every checksum, every counter, every orphaned record."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from storage.batch import TRANSIENT_QUEUE
from storage.messages import lmdb_environment
from storage.messages.key_lookup import lanes_with_segments, records
from storage.messages.keys import (
    ACCEPTED_LOSS,
    BODY,
    CLOSED_SEGMENT,
    DELETION,
    FIRST_FORMAT_APPLIED,
    IDENTITY,
    JOURNAL_MARK,
    LANE,
    LAST_EVENT,
    ORIGIN,
    POSITION_END,
    REFERENCES,
    SEGMENT,
    SET_ASIDE,
    SETTLED,
    SWEEP,
    TRANSIENT_MARK,
    lane_key,
    lane_of,
    number_key,
    number_of,
    place_of,
)
from storage.messages.lane_reader import LaneReader
from storage.messages.message_segments import ENTRY, MessageSegment
from storage.messages.segment_count import count_lane
from storage.messages.small_records import NumberInBoot, Settled, decode_counters, decode_number
from storage.messages.start.journal_replay import unapplied_in_journal
from storage.record_frame import unframe
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb

KINDS = (
    IDENTITY,
    LANE,
    SEGMENT,
    SETTLED,
    BODY,
    REFERENCES,
    SWEEP,
    TRANSIENT_MARK,
    DELETION,
    SET_ASIDE,
    CLOSED_SEGMENT,
    LAST_EVENT,
    JOURNAL_MARK,
    FIRST_FORMAT_APPLIED,
    ORIGIN,
    ACCEPTED_LOSS,
)

_FRAMED = {
    SWEEP: "sweep",
    DELETION: "deletion",
    TRANSIENT_MARK: "mark",
    SET_ASIDE: "set aside",
    CLOSED_SEGMENT: "closed segment",
}
"""Kinds of records of which only the checksum is checked, with their names in a finding."""


@dataclass
class Report:
    """Contents of a store, and problems: sentences for an operator."""

    messages: int = 0
    bytes: int = 0
    lanes: int = 0
    segments: int = 0
    bodies: int = 0
    set_aside: int = 0
    pending_deletions: int = 0
    pending_sweeps: int = 0
    journaled: int = 0
    """Batches that are only in the journal, for the next start to apply.

    Of the other fields only `queue_ids` has them.
    """
    queue_ids: set[int] = field(default_factory=set)
    """Ids of durable queues that are not deleted."""
    problems: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """True without problems."""
        return not self.problems


def verify(directory: Path) -> Report:
    """Check a store that no broker has open, without changing it.

    Raises StoreLocked, StoreIncompatible, and StoreCorrupt if LMDB itself cannot read the file.
    """
    lock = lmdb_environment.lock(directory)
    try:
        identity = lmdb_environment.check_identity(directory, None)
        with lmdb_environment.open_environment(directory, readonly=True) as environment:
            unapplied = unapplied_in_journal(directory, environment, identity)
            with environment.begin(buffers=True) as txn:
                report = _survey(txn)
        if unapplied.lost is not None:
            report.problems.append(unapplied.lost.sentence)
        report.journaled = unapplied.writes.batches
        report.queue_ids |= {queue_id for queue_id, _lane in unapplied.writes.places()}
        return report
    finally:
        os.close(lock)


def _survey(txn: lmdb.Transaction[memoryview]) -> Report:
    report = Report()
    deletions = {number_of(key) for key, _value in records(txn, DELETION)}
    report.pending_deletions = len(deletions)
    report.pending_sweeps = _count(txn, SWEEP)
    report.set_aside = _count(txn, SET_ASIDE)
    references: Counter[int] = Counter()
    for queue_id, lane in lanes_with_segments(txn):
        # Counters count what a restart keeps, which is nothing of a queue that is deleted or ends with its process.
        kept = queue_id not in deletions and queue_id < TRANSIENT_QUEUE
        _check_lane(txn, queue_id, lane, report, references, kept=kept)
    _check_counters_without_segments(txn, report, deletions)
    _check_bitmaps(txn, report)
    _check_bodies(txn, report, references)
    _check_frames(txn, report)
    _check_last_event(txn, report)
    _check_kinds(txn, report)
    return report


def _count(txn: lmdb.Transaction[memoryview], kind: bytes) -> int:
    return sum(1 for _record in records(txn, kind))


def _check_lane(
    txn: lmdb.Transaction[memoryview],
    queue_id: int,
    lane: int,
    report: Report,
    references: Counter[int],
    *,
    kept: bool,
) -> None:
    name = f"queue {queue_id} lane {lane}"
    _check_order(txn, queue_id, lane, report)
    messages, size_bytes = count_lane(txn, queue_id, lane, references)
    if not kept:
        return
    report.lanes += 1
    report.queue_ids |= {queue_id} if queue_id < TRANSIENT_QUEUE else set()
    report.messages += messages
    report.bytes += size_bytes
    reader = LaneReader(txn, queue_id, lane)
    for _message in reader.between(-1, POSITION_END):
        pass
    report.problems += [f"{name}: {record.reason} (position {record.position})" for record in reader.corrupt]
    record = txn.get(lane_key(LANE, queue_id, lane))
    if record is None:
        report.problems.append(f"{name} has messages but no counters")
    else:
        _check_counters(name, record, (messages, size_bytes), report)


def _check_counters(name: str, record: memoryview, held: tuple[int, int], report: Report) -> None:
    try:
        counters = decode_counters(record)
    except StoreCorrupt as error:
        report.problems.append(f"{name}: {error}")
        return
    if (counters.messages, counters.bytes) != held:
        report.problems.append(
            f"{name}: the counters say {counters.messages} messages and {counters.bytes} bytes, "
            f"the segments hold {held[0]} and {held[1]}"
        )


def _check_order(txn: lmdb.Transaction[memoryview], queue_id: int, lane: int, report: Report) -> None:
    """Check that segments do not overlap, and that positions ascend within each."""
    above = -1
    for key, value in records(txn, lane_key(SEGMENT, queue_id, lane)):
        report.segments += 1
        try:
            segment = MessageSegment(value)
        except StoreCorrupt:
            continue  # the reader reports it
        positions = [place_of(key)[2], *(values[0] for values in ENTRY.iter_unpack(segment.index))]
        ascend = all(low < high for low, high in pairwise(positions[1:]))
        if positions[0] <= above or positions[1] < positions[0] or not ascend:
            report.problems.append(f"queue {queue_id} lane {lane}: the segment at {positions[0]} is out of order")
        above = positions[-1]


def _check_counters_without_segments(txn: lmdb.Transaction[memoryview], report: Report, deleted: set[int]) -> None:
    for key, value in records(txn, LANE):
        queue_id, lane = lane_of(key)
        if (
            queue_id in deleted
            or queue_id >= TRANSIENT_QUEUE
            or next(records(txn, lane_key(SEGMENT, queue_id, lane)), None)
        ):
            continue
        report.lanes += 1
        report.queue_ids |= {queue_id} if queue_id < TRANSIENT_QUEUE else set()
        _check_counters(f"queue {queue_id} lane {lane}", value, (0, 0), report)


def _check_bitmaps(txn: lmdb.Transaction[memoryview], report: Report) -> None:
    for key, value in records(txn, SETTLED):
        queue_id, lane, first = place_of(key)
        name = f"queue {queue_id} lane {lane}, segment {first}"
        held = txn.get(SEGMENT + key[1:])
        if held is None:
            report.problems.append(f"{name}: a settled bitmap without its segment")
            continue
        try:
            segment = MessageSegment(held)
            settled = Settled.decode(value, segment.count)
        except StoreCorrupt as error:
            report.problems.append(f"{name}: {error}")
            continue
        live = [ENTRY.size + entry.payload_size for entry in segment.live(settled)]
        if not live or (len(live), sum(live)) != (settled.live, settled.live_bytes):
            report.problems.append(
                f"{name}: its bitmap counts {settled.live} live messages of {settled.live_bytes} bytes, "
                f"and leaves {len(live)} of {sum(live)}"
            )


def _check_bodies(txn: lmdb.Transaction[memoryview], report: Report, references: Counter[int]) -> None:
    counted: dict[int, int] = {}
    for key, value in records(txn, REFERENCES):
        try:
            counted[number_of(key)] = decode_number(value, "a reference count")
        except StoreCorrupt as error:
            report.problems.append(f"body {number_of(key)}: {error}")
    for key, value in records(txn, BODY):
        report.bodies += 1
        try:
            unframe(value, "the body")
        except StoreCorrupt as error:
            report.problems.append(f"body {number_of(key)}: {error}")
        if number_of(key) not in references:
            report.problems.append(f"body {number_of(key)}: no message refers to it")
    for body_id in sorted(counted.keys() | references.keys()):
        if counted.get(body_id, 0) != references[body_id]:
            report.problems.append(
                f"body {body_id}: {references[body_id]} messages refer to it, its count says {counted.get(body_id, 0)}"
            )
        if txn.get(number_key(BODY, body_id)) is None:
            report.problems.append(f"body {body_id}: counted or referred to, but not there")


def _check_frames(txn: lmdb.Transaction[memoryview], report: Report) -> None:
    for kind, what in _FRAMED.items():
        for key, value in records(txn, kind):
            try:
                unframe(value, f"the {what} record")
            except StoreCorrupt as error:
                report.problems.append(f"queue {number_of(key)}: {error}")


def _check_last_event(txn: lmdb.Transaction[memoryview], report: Report) -> None:
    record = txn.get(LAST_EVENT)
    if record is not None:
        try:
            NumberInBoot.decode(record, "the last event")
        except StoreCorrupt as error:
            report.problems.append(str(error))


def _check_kinds(txn: lmdb.Transaction[memoryview], report: Report) -> None:
    known = sum(_count(txn, kind) for kind in KINDS)
    entries = txn.stat()["entries"]
    if known != entries:
        report.problems.append(f"{entries - known} records are of a kind that this release does not know")
