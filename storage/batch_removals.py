"""What a batch takes away, apart from what it puts there: the first is what makes room on a full disk.

While a batch does not fit, those behind it are merged into it, and what all of them take away is committed on its own.
Only where something was put in a message's place, as a dead letter is, the message stays until that is on disk too: a
crash in between must not lose both.
"""

from __future__ import annotations

from storage.batch import PERSISTENT, TRANSIENT_QUEUE, LaneCounters, SealedBatch, SealedLane


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
