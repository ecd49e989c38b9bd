"""The removals of a batch without its puts: on a full disk they are committed alone, because they make room.

While a batch does not fit, the batches behind it are merged into it, and the removals of all are committed on their
own. A message in whose place another was put, such as a dead letter, stays until that one is on disk: a crash in
between must not lose both.
"""

from __future__ import annotations

from storage.batch import PERSISTENT, TRANSIENT_QUEUE, LaneCounters, SealedBatch, SealedLane


def removals(batch: SealedBatch) -> SealedBatch:
    """Return the removals of a batch, with counters as they are while none of its puts is there."""
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
    """Return what is left of a batch once its `removals` are on disk.

    Lanes of queues that are deleted are left out: behind the deletion, even their counters would be of no queue.
    """
    moving = _moving(batch)
    gone = set(batch.deleted_queues) - moving
    lanes = tuple(
        lane._replace(settled=())
        for lane in batch.lanes
        if lane.queue_id not in gone and (lane.puts or lane.moved or lane.deliveries or not lane.settled)
    )
    deleted = tuple(sorted(set(batch.deleted_queues) & moving))
    return batch._replace(lanes=lanes, purges=(), deleted_queues=deleted, removal_waiters=())


def _moving(batch: SealedBatch) -> set[int]:
    """Queues with messages that may leave only together with the message put in their place."""
    return {lane.queue_id for lane in batch.lanes if lane.moved}


def _counted_without_puts(lane: SealedLane) -> LaneCounters:
    """The lane's counters without its puts, and with the messages that leave only together with these."""
    durable = lane.queue_id < TRANSIENT_QUEUE
    puts = [len(record.body) for _, (record, _) in lane.puts if durable and record.flags & PERSISTENT]
    moved = [size for _position, size in lane.moved if size >= 0]
    counters = lane.counters
    return counters._replace(
        messages=max(0, counters.messages - len(puts) + len(moved)),
        bytes=max(0, counters.bytes - sum(puts) + sum(moved)),
    )
