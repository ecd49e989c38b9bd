"""The payload of a record of the journal: a batch as a MessagePack array, as far as a start needs it.

    [lanes, purges, deleted queues, closed segments, last event, shared bodies]

A lane is [queue, lane, counters, settled, deliveries, moved, puts], a put [position, time, flags, route, header, body,
number of the shared body]; a body that several queues share is in the map of shared bodies, by number. Of a delayed
message, the bits of the flags from FLAG_BITS on are the time at which it expires. Transient queues and transient
messages, which end with the process, are left out.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from storage.batch import (
    BLIND,
    DELAYED,
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
"""A number that fits into LMDB's records: a batch with another one is refused when read, not when applied."""
_Row = tuple[_Number, _Number, _Number, bytes, bytes, bytes, _Number]
_Pair = tuple[_Number, _Number]
_Moved = tuple[_Number, Annotated[int, msgspec.Meta(ge=-1)]]
"""A position, and the bytes that the lane counted for it; -1 if it did not count the message."""
_Lane = tuple[_Number, _Number, LaneCounters, tuple[_Number, ...], tuple[_Pair, ...], tuple[_Moved, ...], list[_Row]]
_Batch = tuple[list[_Lane], tuple[Purge, ...], tuple[int, ...], tuple[ClosedStreamSegment, ...], int, dict[int, bytes]]

FLAG_BITS = 16
"""Bits of a record's flags."""
_FLAGS = (1 << FLAG_BITS) - 1

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Batch).decode


class JournaledMessage(MessageRecord):
    """A record read from the journal. Its header is the stored one, keys of a BCC header included."""

    __slots__ = ("_expires_at",)

    def __init__(self, flags: int, route: bytes, header: bytes, body: bytes, body_id: int) -> None:
        super().__init__(route, header, body, flags & _FLAGS, body_id)
        self._expires_at = flags >> FLAG_BITS

    @property
    def expires_at(self) -> int:
        """The time that the flags had beyond their bits."""
        return self._expires_at


def encode_batch(batch: SealedBatch) -> bytes:
    """Encode a batch; empty if it has nothing that a start needs."""
    bodies: dict[int, bytes] = {}
    lanes = [_lane(lane, bodies) for lane in batch.lanes if lane.queue_id < TRANSIENT_QUEUE]
    purges = [purge for purge in batch.purges if purge.queue_id < TRANSIENT_QUEUE]
    deleted = [queue_id for queue_id in batch.deleted_queues if queue_id < TRANSIENT_QUEUE]
    if not (lanes or purges or deleted or batch.last_event):
        return b""
    return _encode((lanes, purges, deleted, batch.closed_segments, batch.last_event, bodies))


def decode_batch(payload: bytes | memoryview, number: int) -> SealedBatch:
    """Decode a batch and give it this number. Raises StoreCorrupt."""
    try:
        lanes, purges, deleted, closed, last_event, bodies = _decode(payload)
        sealed = tuple(_sealed(lane, bodies) for lane in lanes)
    except (msgspec.MsgspecError, KeyError) as error:
        raise StoreCorrupt(f"batch {number} of the journal cannot be read ({error})") from error
    if any(segment.first >= segment.end for segment in closed):
        raise StoreCorrupt(f"batch {number} of the journal closes a stream segment without messages")
    return SealedBatch(number, sealed, purges, deleted, (), closed, last_event, (), len(payload))


def _lane(lane: SealedLane, bodies: dict[int, bytes]) -> tuple[object, ...]:
    rows = [  # nearly all messages are persistent with a body of their own: without a call of `_row` for each
        (position, time, PERSISTENT, record.route, record.header, record.body, 0)
        if record.flags == PERSISTENT and not record.body_id
        else _row(position, record, time, bodies)
        for position, (record, time) in lane.puts
        if record.flags & PERSISTENT
    ]
    return lane.queue_id, lane.lane, lane.counters, lane.settled, lane.deliveries, lane.moved, rows


def _row(position: int, record: MessageRecord, time: int, bodies: dict[int, bytes]) -> _Row:
    flags, body_id = record.flags & _FLAGS, record.body_id
    if flags & DELAYED:
        flags |= record.expires_at << FLAG_BITS
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
