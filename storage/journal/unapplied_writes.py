"""Unapplied writes: batches that are durable in the journal and not in LMDB yet, merged into one in memory.

Most messages are acknowledged a moment after they were confirmed. A message that one batch puts and a later one settles
is dropped here, so LMDB never sees it. The rest goes to LMDB in few, large segments.

Readers see LMDB through the unapplied writes (`LaneView`), so a batch can be read as soon as it is durable. They may
read while it is being applied: the result is the same whether LMDB has it already or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter, itemgetter
from typing import NamedTuple

from storage.batch import (
    BLIND,
    DELAYED,
    ClosedStreamSegment,
    LaneCounters,
    Purge,
    Put,
    SealedBatch,
    SealedLane,
    StoredMessage,
    WaitingMessage,
)

_NO_COUNTERS = LaneCounters(0, 0, 0, 0)
_position = itemgetter(0)
_stored_position: Callable[[StoredMessage | WaitingMessage], int] = attrgetter("position")


class LaneView(NamedTuple):
    """Unapplied writes of one lane at one moment, between two positions."""

    puts: dict[int, Put]
    """By position, ascending."""
    finished: frozenset[int]
    floor: int
    survivors: frozenset[int]
    deliveries: Mapping[int, int]

    def at(self, positions: Iterable[int]) -> LaneView:
        """Return the view with puts at these positions only."""
        return self._replace(puts={position: self.puts[position] for position in positions if position in self.puts})

    def before(self, end: int) -> LaneView:
        """Return the view with puts below a position only."""
        return self._replace(puts={position: put for position, put in self.puts.items() if position < end})

    def then(self, later: LaneView) -> LaneView:
        """Merge with a later view, whose removals apply to the puts of this one."""
        kept = {position: put for position, put in self.puts.items() if later.keeps(position)}
        purged = later if later.floor else self
        return LaneView(
            dict(sorted((kept | later.puts).items(), key=_position)),
            self.finished | later.finished,
            purged.floor,
            purged.survivors,
            {**self.deliveries, **later.deliveries},
        )

    def over(self, stored: Iterable[StoredMessage]) -> Iterator[StoredMessage]:
        """Merge with `stored`, the messages read from LMDB: yields the live ones, ascending."""
        return merge(self._kept(stored), map(self._counted, map(_message, self.puts.items())), key=_stored_position)

    def _kept(self, stored: Iterable[StoredMessage]) -> Iterator[StoredMessage]:
        for message in stored:
            if self.keeps(message.position):
                yield self._counted(message)

    def over_waiting(self, stored: Iterable[WaitingMessage]) -> list[WaitingMessage]:
        """Merge with `stored`, the delayed messages read from LMDB, ascending in position."""
        kept = [message for message in stored if self.keeps(message.position)]
        new = (WaitingMessage(position, due_at, len(record.body)) for position, (record, due_at) in self.puts.items())
        return sorted((*kept, *new), key=_stored_position)

    def keeps(self, position: int) -> bool:
        """True if a message in LMDB is still live.

        One that is also put here was applied a moment ago: it comes from here.
        """
        if position in self.finished or position in self.puts:
            return False
        return position >= self.floor or position in self.survivors

    def _counted(self, message: StoredMessage) -> StoredMessage:
        count = self.deliveries.get(message.position)
        return message if count is None else message._replace(delivery_count=count)


NOTHING = LaneView({}, frozenset(), 0, frozenset(), {})
"""The view of a lane of which LMDB lacks nothing."""


class UnappliedLane:
    """Unapplied writes of one lane."""

    __slots__ = ("counters", "deliveries", "highest_finished", "moved", "purge", "puts", "settled")

    def __init__(self) -> None:
        self.puts: dict[int, Put] = {}
        self.settled: dict[int, None] = {}
        self.moved: dict[int, int] = {}
        self.highest_finished = 0
        self.deliveries: dict[int, int] = {}
        self.counters: LaneCounters | None = None
        self.purge: Purge | None = None

    def add(self, lane: SealedLane) -> None:
        """Add a later batch's share: what it settles of the puts here is dropped from them."""
        unput = self.puts.pop
        for position in lane.settled:
            if unput(position, None) is None:
                self.settled[position] = None
        self.puts.update(lane.puts)
        for position, size in lane.moved:
            if unput(position, None) is None:
                self.moved[position] = size
        if finished := lane.finished:
            self.highest_finished = max(self.highest_finished, max(finished))
        self.deliveries.update(lane.deliveries)
        self.counters = lane.counters

    def add_purge(self, purge: Purge) -> None:
        """Add a purge: drops the puts below its floor, except its survivors."""
        survivors = set(purge.survivors)
        dead = [position for position in self.puts if position < purge.floor and position not in survivors]
        for position in dead:
            del self.puts[position]
        self.purge = purge

    def sealed(self, queue_id: int, lane: int) -> SealedLane:
        """Return all of it as one batch's share."""
        return SealedLane(
            queue_id,
            lane,
            tuple(self.puts.items()),
            tuple(self.settled),
            self.counters or _NO_COUNTERS,
            tuple(self.deliveries.items()),
            tuple(self.moved.items()),
        )

    def view(self, after: int, before: int) -> LaneView | None:
        """Return the writes that a reader between two positions needs, both exclusive; None if there are none.

        Finished positions are copied only if one lies in the range: they usually lie before what is read next.
        """
        puts = dict(sorted((put for put in self.puts.items() if after < put[0] < before), key=_position))
        is_finished = self.highest_finished > after
        if not (puts or is_finished or self.purge or self.deliveries):
            return None
        floor, survivors = (self.purge.floor, self.purge.survivors) if self.purge else (0, ())
        finished = frozenset((*self.settled, *self.moved)) if is_finished else frozenset[int]()
        return LaneView(puts, finished, floor, frozenset(survivors), dict(self.deliveries))


class UnappliedWrites:
    """Sealed batches merged into one. Takes no lock and does no I/O."""

    def __init__(self) -> None:
        self.batches = 0
        self.bytes = 0
        """Approximate bytes of all puts, also of those that were dropped since."""
        self._brought = 0
        """Messages put, also those that were dropped since."""
        self.staying = 0
        """Messages that LMDB still has to be given."""
        self.staying_bytes = 0
        """Approximate bytes of these, as if all messages had the same size."""
        self._number = 0
        self._lanes: dict[tuple[int, int], UnappliedLane] = {}
        self._closed: list[ClosedStreamSegment] = []
        self._deleted: dict[int, None] = {}
        self._last_event = 0

    def add(self, batch: SealedBatch) -> None:
        """Add the next batch."""
        assert batch.number >= self._number, f"batch {batch.number} is added behind batch {self._number}"
        lanes = self._lanes
        for lane in batch.lanes:
            place = lane.queue_id, lane.lane
            if (found := lanes.get(place)) is None:
                found = lanes[place] = UnappliedLane()
            before = len(found.puts)
            found.add(lane)
            self.staying += len(found.puts) - before
            self._brought += len(lane.puts)
        for purge in batch.purges:
            lanes.setdefault((purge.queue_id, purge.lane), UnappliedLane()).add_purge(purge)
        self._closed += batch.closed_segments
        if batch.deleted_queues:
            self._delete(batch.deleted_queues)
        if batch.purges or batch.deleted_queues:
            self.staying = sum(len(lane.puts) for lane in lanes.values())
        self._number = batch.number
        self._last_event = batch.last_event or self._last_event
        self.bytes += batch.bytes
        assert 0 <= self.staying <= self._brought, f"{self.staying} of {self._brought} messages are left"
        self.staying_bytes = self.bytes * self.staying // self._brought if self._brought else 0
        self.batches += 1

    def _delete(self, queue_ids: Iterable[int]) -> None:
        """Drop the puts of deleted queues.

        Moved messages stay recorded: they are removed with the put in their place.
        """
        self._deleted.update(dict.fromkeys(queue_ids))
        for (queue_id, _lane), lane in self._lanes.items():
            if queue_id in self._deleted:
                lane.puts.clear()

    @property
    def deleted(self) -> Iterable[int]:
        """Queues that are deleted here, and so still in LMDB."""
        return self._deleted.keys()

    def counters(self, queue_id: int, lane: int) -> LaneCounters | None:
        """Counters of a lane; None if it has no unapplied writes."""
        found = self._lanes.get((queue_id, lane))
        return None if found is None else found.counters

    def places(self) -> Iterator[tuple[int, int]]:
        """Yield queue and lane of every lane with puts."""
        return (place for place, lane in self._lanes.items() if lane.puts)

    def view(self, queue_id: int, lane: int, after: int, before: int) -> LaneView | None:
        """Return the writes that a reader of a lane between two positions needs; None if LMDB has all of it."""
        found = self._lanes.get((queue_id, lane))
        return None if found is None else found.view(after, before)

    def sealed(self) -> SealedBatch:
        """Return all of it as one batch without waiters, with the number of the last batch."""
        purges = [(place, lane.purge) for place, lane in self._lanes.items() if lane.purge]
        return SealedBatch(
            self._number,
            tuple(lane.sealed(*place) for place, lane in self._lanes.items() if lane.counters),
            tuple(purge for _place, purge in purges),
            tuple(self._deleted),
            (),
            tuple(self._closed),
            self._last_event,
            (),
            self.bytes,
        )


def merged(earlier: SealedBatch, later: SealedBatch) -> SealedBatch:
    """Merge two batches, with the waiters of both. What the later settles of the earlier's puts is dropped."""
    writes = UnappliedWrites()
    writes.add(earlier)
    writes.add(later)
    return writes.sealed()._replace(
        waiters=tuple(dict.fromkeys(earlier.waiters + later.waiters)),
        removal_waiters=earlier.removal_waiters + later.removal_waiters,
    )


def _message(put: tuple[int, Put]) -> StoredMessage:
    position, (record, time) = put
    header = record.stored_header if record.flags & BLIND else record.header
    expires_at = record.expires_at if record.flags & DELAYED else time
    return StoredMessage(
        position, record.flags & 0xFFFF, 0, expires_at, record.route, header, record.body, record.body_id
    )
