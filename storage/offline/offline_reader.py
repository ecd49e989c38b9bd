"""Reading a stopped store message by message, without changing a byte.

A store cannot be read beside its writer, which reuses pages. So a reader holds the store's lock, shared with other
readers, if there is a lock file; a copy on which no broker ever ran has none. Nothing is repaired or written: records
that a start would repair are shown as they are.
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import lmdb

from storage.batch import BLIND, DELAYED, PERSISTENT, TRANSIENT_QUEUE, StoredMessage
from storage.definitions.definition_rows import Definitions
from storage.definitions.definition_store import DefinitionStore
from storage.definitions.definitions_copy import copied
from storage.journal.unapplied_writes import NOTHING, LaneView
from storage.messages import lmdb_environment
from storage.messages.key_lookup import lanes_with_segments, records
from storage.messages.keys import (
    DELETION,
    LANE,
    POSITION_END,
    SEGMENT,
    SET_ASIDE,
    SETTLED,
    lane_key,
    number_of,
    place_of,
)
from storage.messages.lane_reader import LaneReader, read_sweep
from storage.messages.message_segments import MessageSegment
from storage.messages.message_writer import CorruptRecord
from storage.messages.small_records import decode_counters
from storage.messages.start.journal_replay import unapplied_in_journal
from storage.messages.store_origin import read_origin
from storage.storage_errors import StoreCorrupt, StoreError

if TYPE_CHECKING:
    from storage.batch import LaneCounters

log = logging.getLogger("leveret.journal")

ALL = 1 << 62
"""A limit above any number of messages."""

BLIND_SIZE_BYTES = 4
"""Bytes of the size behind the keys of a BCC header."""


class LaneContents(NamedTuple):
    """Live messages in a lane's readable segments, transient ones included."""

    queue_id: int
    lane: int
    messages: int
    bytes: int
    oldest: int
    """Position of the first message."""


class LiveEntry(NamedTuple):
    """A live message as the indexes have it. `bytes`: of its body."""

    position: int
    bytes: int
    persistent: bool


class Found(NamedTuple):
    """A message, or a record of unreadable messages: exactly one of `message` and `damage` is set."""

    queue_id: int
    lane: int
    segment: int
    """Position in the segment's key."""
    message: StoredMessage | None
    delivered: bool
    """The store has noted its delivery: it will come as redelivered. Meaningless for a message of a stream."""
    due_at: int
    """Wall-clock milliseconds, of a delayed message; 0 of others."""
    damage: CorruptRecord | None


class Range(NamedTuple):
    """Consecutive segments of one lane: those with keys in [first, end)."""

    queue_id: int
    lane: int
    first: int
    end: int


class StoppedStore:
    """The message store of a stopped broker. Use it with `with`."""

    def __init__(self, directory: Path) -> None:
        """`directory` is the store's own. Raises StoreLocked, StoreIncompatible and StoreCorrupt."""
        self.directory = directory
        with ExitStack() as undo:
            held = lmdb_environment.hold(directory)
            if held is not None:
                undo.callback(os.close, held)
            self.identity = lmdb_environment.check_identity(directory, None)
            self._environment = undo.enter_context(lmdb_environment.open_environment(directory, readonly=True))
            unapplied = unapplied_in_journal(directory, self._environment, self.identity)
            self._journal = unapplied.writes
            if unapplied.lost is not None:
                log.warning("%s; only what is left is shown", unapplied.lost.sentence)
            self._txn = undo.enter_context(self._environment.begin(buffers=True))
            self._open = undo.pop_all()
        self.deleted = {number_of(key) for key, _value in records(self._txn, DELETION)} | set(self._journal.deleted)
        """Deleted queues whose dead records are still there."""
        self.is_backup = read_origin(self._txn).pending
        """No broker was started on it yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        """Close the store. Raises StoreCorrupt if LMDB could not read its own pages."""
        self._open.close()
        if isinstance(error, lmdb.Error):
            raise StoreCorrupt(f"{self.directory} cannot be read as LMDB ({error}): look into a backup") from error

    def set_aside(self) -> int:
        """Return the number of records that the broker could not read and has set aside."""
        return sum(1 for _record in records(self._txn, SET_ASIDE))

    def places(self) -> list[tuple[int, int]]:
        """Queue and lane of every lane with messages, ascending; without deleted queues."""
        found = sorted({*lanes_with_segments(self._txn), *self._journal.places()})
        return [place for place in found if place[0] not in self.deleted or place[0] >= TRANSIENT_QUEUE]

    def lanes(self) -> Iterator[LaneContents]:
        """Yield the contents of the lanes of `places`. Only indexes are read."""
        for place in self.places():
            yield self._contents(*place)

    def ranges(self, queue_id: int, lane: int, segments: int) -> list[Range]:
        """Cut a lane into ranges of `segments` segments.

        Messages that are only in the journal are in the last range.
        """
        assert segments > 0, "a range has at least one segment"
        firsts = list(islice(self._firsts(queue_id, lane), None, None, segments))
        firsts[:1] = [min((*firsts[:1], *islice(self._unapplied(queue_id, lane).puts, 1)), default=0)]
        return [Range(queue_id, lane, *cut) for cut in zip(firsts, [*firsts[1:], POSITION_END], strict=True)]

    def messages(self, part: Range) -> Iterator[Found]:
        """Yield the live messages of a range, ascending; the damage of a segment comes behind its messages."""
        counters = self._counters(part.queue_id, part.lane)
        # Without counters all messages count as delivered, as after a start that counts them again.
        delivered_up_to = POSITION_END if counters is None else counters.delivered_up_to
        firsts = [first for first in self._firsts(part.queue_id, part.lane) if part.first <= first < part.end]
        unapplied = self._unapplied(part.queue_id, part.lane)
        journaled = list(unapplied.puts)
        for first, end in pairwise(sorted({part.first, *firsts, part.end})):
            here = unapplied.at(journaled[bisect_left(journaled, first) : bisect_left(journaled, end)])
            reader = LaneReader(self._txn, part.queue_id, part.lane, here)
            due: dict[int, int] = {}
            for message in reader.between(first - 1, end):
                if message.flags & DELAYED and not due:
                    due = {each.position: each.due_at for each in reader.waiting(first - 1, end, ALL)}
                delivered = message.position <= delivered_up_to or message.delivery_count > 0
                due_at = due.get(message.position, 0)
                yield Found(part.queue_id, part.lane, first, message, delivered, due_at, None)
            yield from (Found(part.queue_id, part.lane, first, None, False, 0, record) for record in reader.corrupt)

    def _firsts(self, queue_id: int, lane: int) -> Iterator[int]:
        for key, _value in records(self._txn, lane_key(SEGMENT, queue_id, lane)):
            yield place_of(key)[2]

    def _unapplied(self, queue_id: int, lane: int) -> LaneView:
        return self._journal.view(queue_id, lane, -1, POSITION_END) or NOTHING

    def _counters(self, queue_id: int, lane: int) -> LaneCounters | None:
        if (unapplied := self._journal.counters(queue_id, lane)) is not None:
            return unapplied
        record = self._txn.get(lane_key(LANE, queue_id, lane))
        try:
            return None if record is None else decode_counters(record)
        except StoreCorrupt:
            return None

    def live(self, queue_id: int, lane: int) -> Iterator[LiveEntry]:
        """Yield a lane's live messages, ascending, without those in damaged segments. Only indexes are read."""
        unapplied = self._unapplied(queue_id, lane)
        journaled = (
            LiveEntry(position, len(record.body), bool(record.flags & PERSISTENT))
            for position, (record, _time) in unapplied.puts.items()
        )
        return merge(self._stored(queue_id, lane, unapplied), journaled)

    def _stored(self, queue_id: int, lane: int, unapplied: LaneView) -> Iterator[LiveEntry]:
        sweep = read_sweep(self._txn, queue_id, lane)
        for key, value in records(self._txn, lane_key(SEGMENT, queue_id, lane)):
            try:
                segment = MessageSegment(value)
            except StoreCorrupt:
                continue
            for entry in segment.live(segment.settled(self._txn.get(SETTLED + key[1:]))):
                if not sweep.dead(entry.position, entry.flags) and unapplied.keeps(entry.position):
                    yield LiveEntry(entry.position, entry.body_size, bool(entry.flags & PERSISTENT))

    def at(self, queue_id: int, lane: int, position: int) -> StoredMessage | None:
        """Return the live message at a position; None if there is none that can be read."""
        reader = LaneReader(self._txn, queue_id, lane, self._unapplied(queue_id, lane))
        return next(reader.at([position]), None)

    def _contents(self, queue_id: int, lane: int) -> LaneContents:
        messages = size_bytes = 0
        oldest = POSITION_END
        for entry in self.live(queue_id, lane):
            oldest = min(oldest, entry.position)
            messages += 1
            size_bytes += entry.bytes
        return LaneContents(queue_id, lane, messages, size_bytes, oldest if messages else 0)


def definitions_of(path: Path) -> Definitions:
    """Read a stopped broker's definitions from a copy of the file: SQLite would write beside the file itself.

    For an older file the copy is migrated to the newest schema. Raises StoreError, which names the file.
    """
    with copied(path) as copy:
        try:
            with DefinitionStore.open(copy, create=False) as store:
                return store.load()
        except StoreError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from error


def header_of(message: StoredMessage) -> bytes:
    """Return the content header without the keys of a BCC header behind it."""
    if not message.flags & BLIND:
        return message.header
    end = len(message.header) - BLIND_SIZE_BYTES
    return message.header[: end - int.from_bytes(message.header[end:], "big")]
