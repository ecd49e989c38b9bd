"""Reading a lane's live messages: committed segments, seen through the unapplied writes of the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

from zlib_ng.zlib_ng import crc32

from storage.batch import PERSISTENT, StoredMessage, WaitingMessage
from storage.messages.key_lookup import records, seek_segment
from storage.messages.keys import BODY, SEGMENT, SETTLED, SWEEP, lane_key, number_key, place_of
from storage.messages.message_segments import ENTRY, MessageSegment, SegmentEntry, likely_loss
from storage.messages.message_writer import CorruptRecord
from storage.messages.small_records import Settled, Sweep
from storage.record_frame import unframe
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb

    from storage.journal.unapplied_writes import LaneView

_NO_SWEEP = Sweep(0, 0, 0, b"")
_stored_message = cast("Callable[[tuple[object, ...]], StoredMessage]", partial(tuple.__new__, StoredMessage))
"""Makes one of a tuple of its fields: half the time of a call with eight arguments, which is one of Python code."""
RUN_SLOTS: Final = 64
"""Slots of a segment that are read at once. A reader with a limit may drop as many messages."""


class LaneReader:
    """Reads one lane in one read transaction. Unreadable messages and segments are skipped and noted in `corrupt`.

    `unapplied`: the journal's writes that LMDB lacks, between the positions that will be read.
    """

    __slots__ = ("_bodies", "_lane", "_queue_id", "_sweep", "_txn", "_unapplied", "corrupt")

    def __init__(
        self, txn: lmdb.Transaction[memoryview], queue_id: int, lane: int, unapplied: LaneView | None = None
    ) -> None:
        self._txn = txn
        self._queue_id = queue_id
        self._lane = lane
        self._unapplied = unapplied
        self._sweep = read_sweep(txn, queue_id, lane)
        self._bodies: dict[int, bytes | None] = {}
        self.corrupt: list[CorruptRecord] = []

    def read(self, after: int, before: int, max_messages: int, max_bytes: int) -> tuple[list[StoredMessage], int]:
        """Return live messages between two positions, both exclusive, ascending; and the bytes of bodies and headers.

        Stops at `max_messages`, or when the bytes reach `max_bytes`.
        """
        found: list[StoredMessage] = []
        size = 0
        if max_messages > 0:
            for message in self.between(after, before):
                found.append(message)
                size += len(message.body) + len(message.header)
                if len(found) >= max_messages or size >= max_bytes:
                    break
        return found, size

    def between(self, after: int, before: int) -> Iterator[StoredMessage]:
        """Yield live messages between two positions, both exclusive, ascending."""
        stored = chain.from_iterable(self._stored_between(after, before))
        return stored if self._unapplied is None else self._unapplied.over(stored)

    def _stored_between(self, after: int, before: int) -> Iterator[list[StoredMessage]]:
        """Yield the live messages of LMDB, RUN_SLOTS at most at a time."""
        prefix = lane_key(SEGMENT, self._queue_id, self._lane)
        found = seek_segment(self._txn.cursor(), self._queue_id, self._lane, after + 1)
        for key, value in records(self._txn, prefix, found or prefix):
            if place_of(key)[2] >= before:
                return
            segment = self._segment(key, value)
            if segment is not None:
                settled, end = self._settled(key, segment), segment.slot_from(before)
                for start in range(segment.slot_from(after + 1), end, RUN_SLOTS):
                    yield self._messages(segment, settled, range(start, min(start + RUN_SLOTS, end)))

    def at(self, positions: Sequence[int]) -> Iterator[StoredMessage]:
        """Yield live messages at these positions, which ascend."""
        stored = chain.from_iterable(self._stored_at(positions))
        return stored if self._unapplied is None else self._unapplied.at(positions).over(stored)

    def _stored_at(self, positions: Sequence[int]) -> Iterator[list[StoredMessage]]:
        cursor, at = self._txn.cursor(), 0
        while at < len(positions):
            key = seek_segment(cursor, self._queue_id, self._lane, positions[at])
            segment = self._segment(key, cursor.value()) if key else None
            if key is None or segment is None:
                at += 1
                continue
            last, slots, slot, start = segment.last, [], -1, at
            while at < len(positions) and (at == start or positions[at] <= last):
                slot = segment.find(positions[at], slot + 1)
                if slot >= 0:
                    slots.append(slot)
                at += 1
            yield self._messages(segment, self._settled(key, segment), slots)

    def waiting(self, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """Return delayed messages between two positions, segment by segment until there are at least `max_messages`.

        Only indexes are read, no payload.
        """
        stored = self._stored_waiting(after, before, max_messages)
        if self._unapplied is None:
            return stored
        end = stored[-1].position + 1 if len(stored) >= max_messages else before
        return self._unapplied.before(end).over_waiting(stored)

    def _stored_waiting(self, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        prefix = lane_key(SEGMENT, self._queue_id, self._lane)
        start = seek_segment(self._txn.cursor(), self._queue_id, self._lane, after + 1)
        found: list[WaitingMessage] = []
        for key, value in records(self._txn, prefix, start or prefix):
            if place_of(key)[2] >= before or len(found) >= max_messages:
                break
            segment = self._segment(key, value)
            if segment is not None:
                found += self._waiting_in(segment, self._settled(key, segment), after, before)
        return found

    def _waiting_in(
        self, segment: MessageSegment, settled: Settled | None, after: int, before: int
    ) -> Iterator[WaitingMessage]:
        for slot, values in enumerate(ENTRY.iter_unpack(segment.index)):
            position, _expires_at, due_at, _id, _crc, _offset, _header, size, _count, flags, _route = values
            if (
                after < position < before
                and not (settled and slot in settled)
                and not self._sweep.dead(position, flags)
            ):
                yield WaitingMessage(position, due_at, size)

    def _segment(self, key: bytes, value: memoryview) -> MessageSegment | None:
        try:
            return MessageSegment(value)
        except StoreCorrupt as error:
            loss = likely_loss(value, self._txn.get(SETTLED + key[1:]))
            self.corrupt.append(
                CorruptRecord(self._queue_id, self._lane, place_of(key)[2], str(error), *loss, whole_segment=True)
            )
            return None

    def _messages(self, segment: MessageSegment, settled: Settled | None, slots: Sequence[int]) -> list[StoredMessage]:
        """Return the live messages in slots, which ascend."""
        found: list[StoredMessage] = []
        if not slots:
            return found
        sweep = self._sweep
        checksum_of = crc32
        base, payloads = segment.payloads(slots)
        alike, route, header, alike_checksum = b"", b"", b"", 0
        for slot, entry in zip(slots, segment.entries(slots), strict=True):
            if settled is not None and slot in settled:
                continue
            position, expires_at, _due, body_id, checksum, at, header_size, body_size, count, flags, route_size = entry
            if sweep is not _NO_SWEEP and sweep.dead(position, flags):
                continue
            start = at - base
            body_at = start + route_size + header_size
            # Messages of one publisher have the same route and header: one object and one checksum for a run of them.
            if (before := payloads[start:body_at]) != alike or len(route) != route_size:
                alike = before
                route, header, alike_checksum = alike[:route_size], alike[route_size:], checksum_of(alike)
            body: bytes | None = payloads[body_at : body_at + (0 if body_id else body_size)]
            # A shared body is empty here, and so is its share of this checksum: its own record has one.
            if checksum_of(body, alike_checksum) != checksum:
                self._damaged(segment.entry(slot), "a message fails its checksum")
                continue
            if body_id and (body := self._body(body_id)) is None:
                self._damaged(segment.entry(slot), f"shared body {body_id} is missing or fails its checksum")
                continue
            if settled is not None and settled.deliveries:
                count = settled.deliveries.get(slot, count)
            found.append(_stored_message((position, flags, count, expires_at, route, header, body, body_id)))
        return found

    def _settled(self, key: bytes, segment: MessageSegment) -> Settled | None:
        record = self._txn.get(SETTLED + key[1:])
        return None if record is None else segment.settled(record)

    def _body(self, body_id: int) -> bytes | None:
        if body_id not in self._bodies:
            self._bodies[body_id] = self._read_body(body_id)
        return self._bodies[body_id]

    def _read_body(self, body_id: int) -> bytes | None:
        record = self._txn.get(number_key(BODY, body_id))
        if record is None:
            return None
        try:
            return unframe(record, "a shared body")
        except StoreCorrupt:
            return None

    def _damaged(self, entry: SegmentEntry, reason: str) -> None:
        loss = (1, entry.body_size) if entry.flags & PERSISTENT else (0, 0)
        self.corrupt.append(
            CorruptRecord(self._queue_id, self._lane, entry.position, reason, *loss, whole_segment=False)
        )


def read_sweep(txn: lmdb.Transaction[memoryview], queue_id: int, lane: int) -> Sweep:
    """Read the lane's sweep in progress; an empty sweep if there is none, or none that can be read."""
    record = txn.get(lane_key(SWEEP, queue_id, lane))
    if record is None:
        return _NO_SWEEP
    try:
        return Sweep.decode(record)
    except StoreCorrupt:
        return _NO_SWEEP
