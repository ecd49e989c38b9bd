"""Looks at the messages of a lane, in steps, by any thread: bodies are cut while they are read, and nothing is noted.

`LaneReader` reads messages that will be delivered. A look leaves damaged records where they are, counts no read, and
copies of each body no more than its beginning. A transaction is open for one step only. All steps see the journal's
unapplied writes as they were at the first one, and LMDB as it is: of later changes they may show some.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from zlib_ng.zlib_ng import crc32

from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE, PeekLimits, StoredMessage
from storage.journal.unapplied_writes import NOTHING, LaneView
from storage.messages.key_lookup import records, seek_segment
from storage.messages.keys import BODY, SEGMENT, SETTLED, lane_key, number_key, place_of
from storage.messages.lane_reader import read_sweep
from storage.messages.message_segments import MessageSegment, SegmentEntry
from storage.messages.small_records import Settled
from storage.record_frame import framed
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb

    from storage.journal.journal import Journal

STEP_SEGMENTS, STEP_BYTES = 64, 4 << 20
"""Segments, and their bytes, after which a step ends."""
STEP_MESSAGES = 512
"""Messages looked at one by one after which a step ends: about a millisecond."""


class Peeks:
    """Looks at the lanes of a message store. `boot` returns the number of the present one."""

    def __init__(self, environment: lmdb.Environment, journal: Journal, boot: Callable[[], int]) -> None:
        self._boot = boot
        self._environment = environment
        self._journal = journal

    def lane(self, queue_id: int, lane: int, after: int, before: int, skip: int = 0) -> LanePeek:
        """Return a look at the live messages between two positions, exclusive, without the first `skip` of them."""
        if queue_id >= TRANSIENT_QUEUE:  # ids are reused: earlier records belong to other queues
            after = max(after, (self._boot() << COUNTER_BITS) - 1)
        return LanePeek(self._environment, self._journal, (queue_id, lane), (after, before), skip)


class LanePeek:
    """A look at a part of one lane, for one thread at a time.

    `passed` counts the messages seen so far, also those that were skipped or not wanted, and `unreadable` those of
    them that are damaged; `reached` is the position of the last one. `done`: there are no more.
    """

    def __init__(
        self,
        environment: lmdb.Environment,
        journal: Journal,
        place: tuple[int, int],
        between: tuple[int, int],
        skip: int,
    ) -> None:
        self.passed = self.unreadable = 0
        self.reached, self._before = between
        self.done = False
        self._environment = environment
        self._journal = journal
        self._place = place
        self._skip = skip
        self._view: LaneView | None = None
        self._puts: list[int] = []
        self._puts_passed = 0
        self._finished: list[int] = []

    def step(self, limits: PeekLimits) -> list[tuple[int, StoredMessage]]:
        """Read on; return wanted messages with their numbers, which count from 0 through all live messages.

        The list may be empty although there are more.
        """
        step = _Step(limits)
        self._look_at_journal()
        with self._environment.begin(buffers=True) as txn:
            lane = _Lane(txn, *self._place)
            for key, value in lane.segments(self.reached, self._before):
                if step.full or self._pass_segment(lane, key, value, step):
                    return step.found
                step.touched(len(value))
        self.done = self._pass_puts(self._before, step)
        return step.found

    def at(self, positions: Sequence[int], limits: PeekLimits) -> list[StoredMessage]:
        """Return the wanted ones of the live messages at these positions, in one step."""
        step = _Step(limits)
        view = self._look_at_journal()
        with self._environment.begin(buffers=True) as txn:
            lane = _Lane(txn, *self._place)
            for position in positions:
                if position in view.puts:
                    self._offer_put(position, step)
                elif view.keeps(position) and (found := lane.at(position)) is not None:
                    self._offer(lane, *found, step)
        return [message for _, message in step.found]

    def _look_at_journal(self) -> LaneView:
        if self._view is None:  # before the transaction, see `Journal.view`
            self._view = self._journal.view(*self._place, self.reached, self._before) or NOTHING
            self._puts, self._finished = list(self._view.puts), sorted(self._view.finished)
        return self._view

    def _pass_segment(self, lane: _Lane, key: bytes, value: memoryview, step: _Step) -> bool:
        """Pass the messages of a segment, and unapplied ones between them; True if the step has to end before all."""
        try:
            segment = MessageSegment(value)
        except StoreCorrupt:
            self.reached = max(self.reached, place_of(key)[2])
            return False
        settled = lane.settled(key, segment)
        first, last = segment.position(0), segment.last
        if first > self.reached and last < self._before and lane.sweep.end <= first and self._is_untouched(first, last):
            live = segment.count if settled is None else settled.live
            if self.passed + live <= self._skip:
                self.passed, self.reached = self.passed + live, last
                return False
        for slot in range(segment.slot_from(self.reached + 1), segment.slot_from(self._before)):
            entry = segment.entry(slot)
            if not self._pass_puts(entry.position, step) or step.full:
                return True
            if lane.is_live(entry, slot, settled) and self._keeps(entry.position):
                if self._is_wanted_number(entry.position):
                    self._offer(lane, segment, entry, settled, step)
            else:
                self.reached = entry.position
        return False

    def _is_untouched(self, first: int, last: int) -> bool:
        """Return whether the journal's unapplied writes leave the messages of a segment as they are."""
        assert self._view is not None, "seen at the begin of the step"
        finished, at = self._finished, bisect_left(self._finished, first)
        if self._view.floor > first or (at < len(finished) and finished[at] <= last):
            return False
        return self._puts_passed == len(self._puts) or self._puts[self._puts_passed] > last

    def _keeps(self, position: int) -> bool:
        return self._view is None or self._view.keeps(position)

    def _pass_puts(self, before: int, step: _Step) -> bool:
        """Pass unapplied messages below a position; False if the step ends before all are passed."""
        puts = self._puts
        while self._puts_passed < len(puts) and puts[self._puts_passed] < before:
            if step.full:
                return False
            position = puts[self._puts_passed]
            self._puts_passed += 1
            if self._is_wanted_number(position):
                self._offer_put(position, step)
        return True

    def _is_wanted_number(self, position: int) -> bool:
        """Pass a message; return False if it is among those to skip."""
        self.reached = position
        self.passed += 1
        return self.passed > self._skip

    def _offer_put(self, position: int, step: _Step) -> None:
        assert self._view is not None, "the put is in it"
        for message in self._view.at((position,)).over(()):
            if step.wants(message.flags, message.route, message.header):
                step.add(self.passed - 1, message._replace(body=message.body[: step.limits.body_bytes]))

    def _offer(
        self, lane: _Lane, segment: MessageSegment, entry: SegmentEntry, settled: Settled | None, step: _Step
    ) -> None:
        route, header = lane.front(segment, entry)
        if not step.wants(entry.flags, route, header):
            return
        body = lane.beginning(segment, entry, route + header, step.limits.body_bytes)
        if body is None:
            self.unreadable += 1
            return
        assert self._view is not None, "seen at the begin of the step"
        count = entry.delivery_count
        if settled is not None and settled.deliveries:
            count = settled.deliveries.get(segment.find(entry.position), count)
        count = self._view.deliveries.get(entry.position, count)
        times = entry.expires_at
        step.add(
            self.passed - 1,
            StoredMessage(entry.position, entry.flags, count, times, route, header, body, entry.body_id),
        )


class _Step:
    """The messages that a step has found, and whether it has to end."""

    def __init__(self, limits: PeekLimits) -> None:
        self.limits = limits
        self.found: list[tuple[int, StoredMessage]] = []
        self._looked_at = self._size = self._segments = self._segment_bytes = 0

    @property
    def full(self) -> bool:
        """One of the limits of the step is reached."""
        limits = self.limits
        return (
            len(self.found) >= limits.messages
            or self._size >= limits.size_bytes
            or self._looked_at >= min(limits.looked_at, STEP_MESSAGES)
            or self._segments >= STEP_SEGMENTS
            or self._segment_bytes >= STEP_BYTES
        )

    def touched(self, size: int) -> None:
        """Count a segment, and its bytes."""
        self._segments += 1
        self._segment_bytes += size

    def wants(self, flags: int, route: bytes, header: bytes) -> bool:
        """Look at a message, and return whether it is wanted."""
        self._looked_at += 1
        return self.limits.wants is None or self.limits.wants(flags, route, header)

    def add(self, number: int, message: StoredMessage) -> None:
        """Add a message."""
        self.found.append((number, message))
        self._size += len(message.header) + len(message.body)


class _Lane:
    """A lane as one transaction sees it."""

    def __init__(self, txn: lmdb.Transaction[memoryview], queue_id: int, lane: int) -> None:
        self._txn = txn
        self._queue_id = queue_id
        self._lane = lane
        self.sweep = read_sweep(txn, queue_id, lane)

    def segments(self, after: int, before: int) -> Iterator[tuple[bytes, memoryview]]:
        """Yield the segments that may hold messages between two positions."""
        prefix = lane_key(SEGMENT, self._queue_id, self._lane)
        start = seek_segment(self._txn.cursor(), self._queue_id, self._lane, after + 1)
        for key, value in records(self._txn, prefix, start or prefix):
            if place_of(key)[2] >= before:
                return
            yield key, value

    def at(self, position: int) -> tuple[MessageSegment, SegmentEntry, Settled | None] | None:
        """Return the live message at a position, with its segment and what is settled of that; None without one."""
        cursor = self._txn.cursor()
        key = seek_segment(cursor, self._queue_id, self._lane, position)
        try:
            segment = None if key is None else MessageSegment(cursor.value())
        except StoreCorrupt:
            return None
        if key is None or segment is None or (slot := segment.find(position)) < 0:
            return None
        settled, entry = self.settled(key, segment), segment.entry(slot)
        return (segment, entry, settled) if self.is_live(entry, slot, settled) else None

    def settled(self, key: bytes, segment: MessageSegment) -> Settled | None:
        """Return what is settled of a segment; None: nothing."""
        record = self._txn.get(SETTLED + key[1:])
        return None if record is None else segment.settled(record)

    def is_live(self, entry: SegmentEntry, slot: int, settled: Settled | None) -> bool:
        """Return whether a message of a segment is neither settled nor purged."""
        return (settled is None or slot not in settled) and not self.sweep.dead(entry.position, entry.flags)

    def front(self, segment: MessageSegment, entry: SegmentEntry) -> tuple[bytes, bytes]:
        """Copy the route and the header of a message, which may be damaged."""
        at = segment.payload_at + entry.offset
        front = bytes(segment.value[at : at + entry.route_size + entry.header_size])
        return front[: entry.route_size], front[entry.route_size :]

    def beginning(self, segment: MessageSegment, entry: SegmentEntry, front: bytes, size: int) -> bytes | None:
        """Copy the first `size` bytes of a message's body; None if the message fails its checksum."""
        at = segment.payload_at + entry.offset
        body = memoryview(segment.value)[at + len(front) : at + entry.payload_size]
        if crc32(body, crc32(front)) != entry.checksum:
            return None
        if not entry.body_id:
            return bytes(body[:size])
        record = self._txn.get(number_key(BODY, entry.body_id))
        try:
            return None if record is None else bytes(framed(record, "a shared body")[:size])
        except StoreCorrupt:
            return None
