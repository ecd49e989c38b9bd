"""What a batch takes away, apart from what it puts there: the first is what makes room on a full disk.

While a batch does not fit, those behind it are merged into it. What a client has acknowledged or purged meanwhile is
not put at all, and what all of them take away is committed on its own. Only where something was put in a message's
place, as a dead letter is, the message stays until that is on disk too: a crash in between must not lose both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from storage.batch import (
    PERSISTENT,
    TRANSIENT_QUEUE,
    LaneCounters,
    Purge,
    SealedBatch,
    SealedLane,
)

Place = tuple[int, int]
"""A queue's id, and the number of its lane."""


def merged(earlier: SealedBatch, later: SealedBatch) -> SealedBatch:
    """Two batches as one: what the later takes away of what the earlier puts is not put."""
    lanes = {(lane.queue_id, lane.lane): lane for lane in _without_deleted(earlier, later.deleted_queues)}
    for lane in later.lanes:
        place = lane.queue_id, lane.lane
        lanes[place] = _merged_lane(lanes[place], lane) if place in lanes else lane
    for purge in later.purges:
        place = purge.queue_id, purge.lane
        if place in lanes:
            lanes[place] = _purged_lane(lanes[place], purge)
    return SealedBatch(
        later.number,
        tuple(lanes.values()),
        earlier.purges + later.purges,
        earlier.deleted_queues + later.deleted_queues,
        tuple(dict.fromkeys(earlier.waiters + later.waiters)),
        earlier.closed_segments + later.closed_segments,
        later.last_event or earlier.last_event,
        earlier.removal_waiters + later.removal_waiters,
        earlier.bytes + later.bytes,
    )


def removals(batch: SealedBatch) -> SealedBatch:
    """What a batch takes away, with counters as they are while nothing of what it puts is there."""
    purged = {(purge.queue_id, purge.lane) for purge in batch.purges}
    lanes = tuple(
        lane._replace(puts=(), moved=(), deliveries=(), counters=_counted_without_puts(lane))
        for lane in batch.lanes
        if lane.settled or (lane.queue_id, lane.lane) in purged
    )
    moved = {(lane.queue_id, lane.lane): [position for position, _size in lane.moved] for lane in batch.lanes}
    purges = tuple(
        purge._replace(survivors=(*purge.survivors, *moved.get((purge.queue_id, purge.lane), ())))
        for purge in batch.purges
    )
    deleted = tuple(sorted(set(batch.deleted_queues) - _moving(batch)))
    return SealedBatch(batch.number, lanes, purges, deleted, (), (), 0, batch.removal_waiters)


def additions(batch: SealedBatch) -> SealedBatch:
    """What is left of a batch when its `removals` are on disk."""
    lanes = tuple(
        lane._replace(settled=())
        for lane in batch.lanes
        if lane.puts or lane.moved or lane.deliveries or not lane.settled
    )
    deleted = tuple(sorted(set(batch.deleted_queues) & _moving(batch)))
    return batch._replace(lanes=lanes, purges=(), deleted_queues=deleted, removal_waiters=())


def _moving(batch: SealedBatch) -> set[int]:
    """The queues of which messages are gone only together with what was put in their place."""
    return {lane.queue_id for lane in batch.lanes if lane.moved}


def _without_deleted(batch: SealedBatch, deleted: Iterable[int]) -> Iterator[SealedLane]:
    gone = set(deleted)
    return (lane._replace(puts=()) if lane.queue_id in gone else lane for lane in batch.lanes)


def _merged_lane(earlier: SealedLane, later: SealedLane) -> SealedLane:
    puts = dict(earlier.puts)
    settled = [position for position in later.settled if puts.pop(position, None) is None]
    return later._replace(
        puts=(*puts.items(), *later.puts),
        settled=(*earlier.settled, *settled),
        deliveries=tuple({**dict(earlier.deliveries), **dict(later.deliveries)}.items()),
        moved=earlier.moved + later.moved,
    )


def _purged_lane(lane: SealedLane, purge: Purge) -> SealedLane:
    survivors = {*purge.survivors, *(position for position, _size in lane.moved)}
    return lane._replace(puts=tuple(put for put in lane.puts if put[0] >= purge.floor or put[0] in survivors))


def _counted_without_puts(lane: SealedLane) -> LaneCounters:
    """The lane's counters without what it puts, and with what leaves only together with that."""
    durable = lane.queue_id < TRANSIENT_QUEUE
    puts = [len(record.body) for _, (record, _) in lane.puts if durable and record.flags & PERSISTENT]
    moved = [size for _position, size in lane.moved if size >= 0]
    counters = lane.counters
    return counters._replace(
        messages=max(0, counters.messages - len(puts) + len(moved)),
        bytes=max(0, counters.bytes - sum(puts) + sum(moved)),
    )
