"""Messages written and settled in one LMDB transaction: changes of message segments, bitmaps and shared bodies.

All invariants of the store are kept here:

- Segments of one lane never overlap in position. New positions are nearly always above all earlier ones; a run
  that is not is merged with the segment it falls into.
- A segment has at least one live message. Settling the last one deletes the segment and its bitmap.
- A segment of which less than a quarter is live is rewritten under the same key, without its bitmap.
- Each live entry with a shared body holds one reference to it. The transaction that drops the last reference deletes
  the body.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from storage.batch import Put
from storage.messages.key_lookup import next_first, seek_segment
from storage.messages.keys import (
    BODY,
    REFERENCES,
    SEGMENT,
    SET_ASIDE,
    SETTLED,
    number_key,
    place_key,
    place_of,
)
from storage.messages.message_segments import ENTRY, SHARED, MessageSegment, kinds_of, likely_loss, pack, repack
from storage.messages.small_records import Settled, decode_number, encode_number
from storage.record_frame import frame
from storage.storage_errors import StoreCorrupt, StoreFailed

if TYPE_CHECKING:
    import lmdb

PAGE_BYTES = 4096

UNCOUNTED = 1 << 32
"""Reference count given to a body whose count is damaged: so high that the body is never deleted."""


class CorruptRecord(NamedTuple):
    """One message, or a whole segment, that cannot be read. Its raw bytes are kept under a key of their own.

    `messages` and `bytes` are its share of the lane's counters: exact for a message, an estimate for a whole segment,
    of which `position` is the first.
    """

    queue_id: int
    lane: int
    position: int
    reason: str
    messages: int
    bytes: int
    whole_segment: bool


class MessageWriter:
    """Puts and settles messages in one write transaction. Call `finish` last."""

    __slots__ = ("_bodies", "_cursor", "_references", "boot", "corrupt", "txn")

    def __init__(self, txn: lmdb.Transaction[memoryview], boot: int) -> None:
        self.txn = txn
        self.boot = boot
        self.corrupt: list[CorruptRecord] = []
        self._cursor = txn.cursor()
        self._references: defaultdict[int, int] = defaultdict(int)
        self._bodies: dict[int, bytes] = {}

    # Putting messages in

    def put(self, queue_id: int, lane: int, puts: Sequence[tuple[int, Put]], highest: int) -> int:
        """Store messages, ascending in position. Returns the kinds among them: SHARED and TRANSIENT bits.

        `highest` is a position above which the lane holds nothing.
        """
        assert puts[0][0] <= puts[-1][0], "puts ascend in position"
        for _position, (record, _expires_at) in puts:
            if record.body_id:
                self._references[record.body_id] += 1
                self._bodies[record.body_id] = record.body
        if puts[0][0] > highest:
            return self._add(queue_id, lane, pack(puts))
        kinds = 0
        for key, run in self._runs_by_segment(queue_id, lane, puts):
            kinds |= self._add(queue_id, lane, pack(run) if key is None else self._merge(key, run))
        return kinds

    def _add(self, queue_id: int, lane: int, segments: Iterable[tuple[int, bytes]]) -> int:
        kinds = 0
        for first, value in segments:
            kinds |= kinds_of(value)
            if not self.txn.put(place_key(SEGMENT, queue_id, lane, first), value, overwrite=False):
                raise StoreFailed(f"queue {queue_id} lane {lane} has a segment at position {first} already: stop")
        return kinds

    def _runs_by_segment(
        self, queue_id: int, lane: int, puts: Sequence[tuple[int, Put]]
    ) -> Iterator[tuple[bytes | None, Sequence[tuple[int, Put]]]]:
        """Cut a run at the starts of existing segments.

        Yields each part with the key of the segment it overlaps, or None.
        """
        start = 0
        while start < len(puts):
            position = puts[start][0]
            key = seek_segment(self._cursor, queue_id, lane, position)
            overlaps = key is not None and self._last_position(key) >= position
            end, limit = start + 1, next_first(self._cursor, queue_id, lane, position)
            while end < len(puts) and puts[end][0] < limit:
                end += 1
            yield key if overlaps else None, puts[start:end]
            start = end

    def _last_position(self, key: bytes) -> int:
        segment = self.segment(key)
        return segment.last if segment else -1

    def _merge(self, key: bytes, run: Sequence[tuple[int, Put]]) -> list[tuple[int, bytes]]:
        """Delete a segment, and return it repacked together with a run that falls into it."""
        segment = self.segment(key)
        assert segment is not None, "a segment that overlaps was readable a moment ago"
        settled = self.settled(key, segment)
        merged = {entry.position: (entry, segment.payload(entry)) for entry in segment.live(settled)}
        for _first, value in pack(run):
            new = MessageSegment(value)
            for entry in new.live(new.settled(None)):
                replaced = merged.get(entry.position)
                # A replay of the journal puts again what is here already: the reference counted for it goes back.
                if replaced and replaced[0].body_id:
                    self._references[replaced[0].body_id] -= 1
                merged[entry.position] = entry, new.payload(entry)
        self._delete(key)
        return repack(merged[position] for position in sorted(merged))

    # Taking messages out

    def settle(self, queue_id: int, lane: int, positions: Iterable[int]) -> None:
        """Remove messages. Positions that the store does not hold are ignored."""
        for key, segment, wanted in self._segments(queue_id, lane, sorted(set(positions))):
            run = segment.run(wanted)
            self.settle_slots(key, segment, run or segment.slots(wanted).values())

    def count_deliveries(self, queue_id: int, lane: int, counts: Iterable[tuple[int, int]]) -> None:
        """Store delivery counts by position. Positions that the store does not hold are ignored."""
        count_of = dict(counts)
        for key, segment, wanted in self._segments(queue_id, lane, sorted(count_of)):
            if slots := segment.slots(wanted):
                counted = self.settled(key, segment)
                counted.deliveries |= {
                    slot: count_of[position] for position, slot in slots.items() if slot not in counted
                }
                self.txn.put(_bitmap_key(key), counted.encode())

    def _segments(
        self, queue_id: int, lane: int, ordered: Sequence[int]
    ) -> Iterator[tuple[bytes, MessageSegment, Sequence[int]]]:
        """Yield the segments of ascending positions: key, segment, and the positions that fall into it."""
        at = 0
        while at < len(ordered):
            key = seek_segment(self._cursor, queue_id, lane, ordered[at])
            segment = self._read(key, self._cursor.value()) if key else None
            if key is None or segment is None:
                at += 1
                continue
            end = bisect_right(ordered, segment.last, at)
            if end > at:
                yield key, segment, ordered[at:end]
            at = max(end, at + 1)

    def settle_slots(self, key: bytes, segment: MessageSegment, slots: Collection[int]) -> None:
        """Settle messages of one segment.

        Deletes it if none is left, rewrites it if less than a quarter of it is live.
        """
        if len(slots) == segment.count:
            self.drop_segment(key, segment)
            return
        settled = self.settled(key, segment)
        before = settled.live
        # Acknowledgements mostly come in order: then their slots are one run, and the bitmap changes in one step.
        if isinstance(slots, range) and not segment.kinds & SHARED and settled.lacks(slots):
            settled.add_run(slots, segment.weight_of_run(slots))
        else:
            for slot in slots:
                if slot not in settled:
                    weight, body_id = segment.weight(slot)
                    settled.add(slot, weight)
                    if body_id:
                        self._references[body_id] -= 1
        if settled.live == before:
            return
        if not settled.live:
            self._delete(key)
        elif len(segment.value) > PAGE_BYTES and settled.live_bytes * 4 < len(segment.value):
            self._rewrite(key, segment, settled)
        else:
            self.txn.put(_bitmap_key(key), settled.encode())

    def drop_segment(self, key: bytes, segment: MessageSegment) -> None:
        """Remove every message of a segment."""
        if segment.kinds & SHARED:
            for entry in segment.live(self.settled(key, segment)):
                if entry.body_id:
                    self._references[entry.body_id] -= 1
        self._delete(key)

    def _rewrite(self, key: bytes, segment: MessageSegment, settled: Settled) -> None:
        kept = [(entry, segment.payload(entry)) for entry in segment.live(settled)]
        self._delete(key)
        assert kept, "a segment without live messages is deleted, not rewritten"
        # Fewer messages and bytes than one segment held: one segment again. Its key may lie below its first position.
        ((_first, value),) = repack(kept)
        self.txn.put(key, value)

    def _delete(self, key: bytes) -> None:
        self.txn.delete(key)
        self.txn.delete(_bitmap_key(key))

    # Reading, for the sake of writing

    def segment(self, key: bytes) -> MessageSegment | None:
        """Read the segment under a key; None if it is unreadable and was set aside. Valid until the next write."""
        value = self.txn.get(key)
        return None if value is None else self._read(key, value)

    def _read(self, key: bytes, value: memoryview) -> MessageSegment | None:
        try:
            return MessageSegment(value)
        except StoreCorrupt as error:
            self._set_aside_segment(key, str(error))
            return None

    def settled(self, key: bytes, segment: MessageSegment) -> Settled:
        """Read the bitmap of a segment."""
        return segment.settled(self.txn.get(_bitmap_key(key)))

    # Setting aside

    def set_aside(self, record: CorruptRecord) -> None:
        """Remove from its lane what a reader found unreadable, and keep its bytes."""
        if record.whole_segment:
            key = place_key(SEGMENT, record.queue_id, record.lane, record.position)
            reported = len(self.corrupt)
            self.segment(key)
            del self.corrupt[reported:]  # the reader has reported it
        else:
            self._set_aside_message(record.queue_id, record.lane, record.position)

    def _set_aside_segment(self, key: bytes, reason: str) -> None:
        """Move an unreadable segment out of its lane, and report it."""
        queue_id, lane, first = place_of(key)
        value = bytes(self.txn.get(key) or b"")
        loss = likely_loss(value, self.txn.get(_bitmap_key(key)))
        self.txn.put(place_key(SET_ASIDE, queue_id, lane, first), frame(value))
        self._delete(key)
        self.corrupt.append(CorruptRecord(queue_id, lane, first, reason, *loss, whole_segment=True))

    def _set_aside_message(self, queue_id: int, lane: int, position: int) -> None:
        key = seek_segment(self._cursor, queue_id, lane, position)
        segment = self.segment(key) if key else None
        slot = segment.find(position) if segment else -1
        if key is None or segment is None or slot < 0 or slot in self.settled(key, segment):
            return
        entry = segment.entry(slot)
        raw = ENTRY.pack(*entry) + segment.payload(entry)
        self.settle_slots(key, segment, [slot])
        self.txn.put(place_key(SET_ASIDE, queue_id, lane, position), frame(raw))

    # Shared bodies

    def finish(self) -> None:
        """Write the reference counts of shared bodies, add new bodies, delete those without references."""
        for body_id, change in self._references.items():
            if change:
                self._count_references(body_id, change)

    def _count_references(self, body_id: int, change: int) -> None:
        count_key, body_key = number_key(REFERENCES, body_id), number_key(BODY, body_id)
        before = _references_to(self.txn, count_key)
        if before + change <= 0:
            self.txn.delete(count_key)
            self.txn.delete(body_key)
            return
        self.txn.put(count_key, encode_number(before + change))
        if not before and body_id in self._bodies:
            self.txn.put(body_key, frame(self._bodies[body_id]))


def _bitmap_key(segment_key: bytes) -> bytes:
    return SETTLED + segment_key[1:]


def _references_to(txn: lmdb.Transaction[memoryview], count_key: bytes) -> int:
    record = txn.get(count_key)
    if record is None:
        return 0
    try:
        return decode_number(record, "a body's reference count")
    except StoreCorrupt:
        return UNCOUNTED
