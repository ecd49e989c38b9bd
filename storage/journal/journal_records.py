"""What a batch is in the journal: a MessagePack array, of what a start needs to have LMDB catch up.

    [lanes, purges, deleted queues, closed segments, last event, shared bodies]

A lane is [queue, lane, counters, settled, deliveries, moved, puts], a put [position, time, flags, route, header, body,
number of the shared body]; a body that several queues share is in the map of shared bodies, by number. What ends with
the process, transient queues and transient messages, is left out.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from storage.batch import (
    BLIND,
    PERSISTENT,
    TRANSIENT_QUEUE,
    ClosedStreamSegment,
    LaneCounters,
    MessageRecord,
    Purge,
    SealedBatch,
    SealedLane,
)
from storage.storage_errors import StoreCorrupt

_Number = Annotated[int, msgspec.Meta(ge=0)]
"""A number that LMDB's records have room for: a batch with another is refused when it is read, not when applied."""
_Row = tuple[_Number, _Number, _Number, bytes, bytes, bytes, _Number]
_Pair = tuple[_Number, _Number]
_Moved = tuple[_Number, Annotated[int, msgspec.Meta(ge=-1)]]
"""A position, and the bytes that the lane counted for it; -1 where it did not count the message."""
_Lane = tuple[_Number, _Number, LaneCounters, tuple[_Number, ...], tuple[_Pair, ...], tuple[_Moved, ...], list[_Row]]
_Batch = tuple[list[_Lane], tuple[Purge, ...], tuple[int, ...], tuple[ClosedStreamSegment, ...], int, dict[int, bytes]]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Batch).decode


class JournaledMessage:
    """A message as the journal has it: a `MessageRecord`. Its header is the stored one, keys of a BCC header included."""

    __slots__ = ("body", "body_id", "flags", "header", "route")

    def __init__(self, flags: int, route: bytes, header: bytes, body: bytes, body_id: int) -> None:
        self.flags = flags
        self.route = route
        self.header = header
        self.body = body
        self.body_id = body_id

    @property
    def stored_header(self) -> bytes:
        """The header as it is."""
        return self.header


def encode_batch(batch: SealedBatch) -> bytes:
    """A batch's payload; empty if there is nothing in it that a start needs."""
    bodies: dict[int, bytes] = {}
    lanes = [_lane(lane, bodies) for lane in batch.lanes if lane.queue_id < TRANSIENT_QUEUE]
    purges = [purge for purge in batch.purges if purge.queue_id < TRANSIENT_QUEUE]
    deleted = [queue_id for queue_id in batch.deleted_queues if queue_id < TRANSIENT_QUEUE]
    if not (lanes or purges or deleted or batch.last_event):
        return b""
    return _encode((lanes, purges, deleted, batch.closed_segments, batch.last_event, bodies))


def decode_batch(payload: bytes | memoryview, number: int) -> SealedBatch:
    """The batch of a payload, under a number. Raises StoreCorrupt."""
    try:
        lanes, purges, deleted, closed, last_event, bodies = _decode(payload)
        sealed = tuple(_sealed(lane, bodies) for lane in lanes)
    except (msgspec.MsgspecError, KeyError) as error:
        raise StoreCorrupt(f"batch {number} of the journal cannot be read ({error})") from error
    return SealedBatch(number, sealed, purges, deleted, (), closed, last_event, (), len(payload))


def _lane(lane: SealedLane, bodies: dict[int, bytes]) -> tuple[object, ...]:
    rows = [
        (position, time, PERSISTENT, record.route, record.header, record.body, 0)
        if record.flags == PERSISTENT and not record.body_id
        else _row(position, record, time, bodies)
        for position, (record, time) in lane.puts
        if record.flags & PERSISTENT
    ]
    return lane.queue_id, lane.lane, lane.counters, lane.settled, lane.deliveries, lane.moved, rows


def _row(position: int, record: MessageRecord, time: int, bodies: dict[int, bytes]) -> _Row:
    flags, body_id = record.flags & 0xFFFF, record.body_id
    header = record.stored_header if flags & BLIND else record.header
    if not body_id:
        return position, time, flags, record.route, header, record.body, 0
    bodies[body_id] = record.body
    return position, time, flags, record.route, header, b"", body_id


def _sealed(lane: _Lane, bodies: dict[int, bytes]) -> SealedLane:
    queue_id, number, counters, settled, deliveries, moved, rows = lane
    puts = tuple(
        (position, (JournaledMessage(flags, route, header, bodies[body_id] if body_id else body, body_id), time))
        for position, time, flags, route, header, body, body_id in rows
    )
    return SealedLane(queue_id, number, puts, settled, counters, deliveries, moved)
