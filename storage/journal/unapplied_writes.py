"""What is on disk in the journal and not in LMDB yet, in memory: one batch made of many.

Most messages are acknowledged a moment after they were confirmed. So what a later batch takes away of what an earlier
one puts is not put at all: LMDB never sees such a message. The rest goes there in few, large segments.

Readers look at LMDB through what is unapplied (`LaneView`), so a batch can be read as soon as it is on disk. They may
look while it is being applied: whether LMDB has it already or not, they see the same.
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
    """One lane of it at one moment, between two positions."""

    puts: dict[int, Put]
    """By position, ascending."""
    finished: frozenset[int]
    floor: int
    survivors: frozenset[int]
    deliveries: Mapping[int, int]

    def at(self, positions: Iterable[int]) -> LaneView:
        """The same, with what is put at these positions only."""
        return self._replace(puts={position: self.puts[position] for position in positions if position in self.puts})

    def before(self, end: int) -> LaneView:
        """The same, with what is put before a position only."""
        return self._replace(puts={position: put for position, put in self.puts.items() if position < end})

    def then(self, later: LaneView) -> LaneView:
        """The same after what came later: what that takes away is not there."""
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
        """The live messages, ascending, where `stored` is what LMDB has of them."""
        return merge(self._kept(stored), map(self._counted, map(_message, self.puts.items())), key=_stored_position)

    def _kept(self, stored: Iterable[StoredMessage]) -> Iterator[StoredMessage]:
        for message in stored:
            if self.keeps(message.position):
                yield self._counted(message)

    def over_waiting(self, stored: Iterable[WaitingMessage]) -> list[WaitingMessage]:
        """The same for delayed messages."""
        kept = [message for message in stored if self.keeps(message.position)]
        new = (WaitingMessage(position, due_at, len(record.body)) for position, (record, due_at) in self.puts.items())
        return sorted((*kept, *new), key=_stored_position)

    def keeps(self, position: int) -> bool:
        """Is a message of LMDB's still to be taken from there? One that is put here, too, was applied a moment ago."""
        if position in self.finished or position in self.puts:
            return False
        return position >= self.floor or position in self.survivors

    def _counted(self, message: StoredMessage) -> StoredMessage:
        count = self.deliveries.get(message.position)
        return message if count is None else message._replace(delivery_count=count)


NOTHING = LaneView({}, frozenset(), 0, frozenset(), {})
"""Where LMDB lacks nothing."""


class UnappliedLane:
    """What one lane is still to be given."""

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
        """A later batch's share: what it takes away of what is to be put is not put."""
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
        """What is below the floor is not put, save the survivors."""
        survivors = set(purge.survivors)
        dead = [position for position in self.puts if position < purge.floor and position not in survivors]
        for position in dead:
            del self.puts[position]
        self.purge = purge

    def sealed(self, queue_id: int, lane: int) -> SealedLane:
        """All of it, as one batch's share."""
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
        """What a reader between two positions, both exclusive, has to know; None where that is nothing.

        What is finished with lies before what is read next of a queue, as a rule.
        """
        puts = dict(sorted((put for put in self.puts.items() if after < put[0] < before), key=_position))
        is_finished = self.highest_finished > after
        if not (puts or is_finished or self.purge or self.deliveries):
            return None
        floor, survivors = (self.purge.floor, self.purge.survivors) if self.purge else (0, ())
        finished = frozenset((*self.settled, *self.moved)) if is_finished else frozenset[int]()
        return LaneView(puts, finished, floor, frozenset(survivors), dict(self.deliveries))


class UnappliedWrites:
    """Sealed batches, as one. Nothing here waits or locks."""

    def __init__(self) -> None:
        self.batches = 0
        self.bytes = 0
        """About how much was brought, whatever has become of it."""
        self._brought = 0
        """How many messages were put."""
        self.staying = 0
        """How many of these are still to be put."""
        self.staying_bytes = 0
        """About how many bytes these have, were all messages of one size."""
        self._number = 0
        self._lanes: dict[tuple[int, int], UnappliedLane] = {}
        self._closed: list[ClosedStreamSegment] = []
        self._deleted: dict[int, None] = {}
        self._last_event = 0

    def add(self, batch: SealedBatch) -> None:
        """Take one more batch, the next."""
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
        self.staying_bytes = self.bytes * self.staying // self._brought if self._brought else 0
        self.batches += 1

    def _delete(self, queue_ids: Iterable[int]) -> None:
        """What they put is not put. What has moved from them stays with them: it goes only with where it went."""
        self._deleted.update(dict.fromkeys(queue_ids))
        for (queue_id, _lane), lane in self._lanes.items():
            if queue_id in self._deleted:
                lane.puts.clear()

    @property
    def deleted(self) -> Iterable[int]:
        """The queues that are deleted here, and so still in LMDB."""
        return self._deleted.keys()

    def counters(self, queue_id: int, lane: int) -> LaneCounters | None:
        """What a lane counts; None where nothing is unapplied."""
        found = self._lanes.get((queue_id, lane))
        return None if found is None else found.counters

    def places(self) -> Iterator[tuple[int, int]]:
        """Queue and lane of everything that is put."""
        return (place for place, lane in self._lanes.items() if lane.puts)

    def view(self, queue_id: int, lane: int, after: int, before: int) -> LaneView | None:
        """What a reader of a lane between two positions has to know; None where LMDB has all of it."""
        found = self._lanes.get((queue_id, lane))
        return None if found is None else found.view(after, before)

    def sealed(self) -> SealedBatch:
        """All of it as one batch, with the number of the last. It has no waiters."""
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
    """Two batches as one, with the waiters of both: what the later takes away of what the earlier puts is not put."""
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
    expires_at = 0 if record.flags & DELAYED else time
    return StoredMessage(
        position, record.flags & 0xFFFF, 0, expires_at, record.route, header, record.body, record.body_id
    )
