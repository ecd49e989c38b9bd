"""Offsets that groups of consumers commit in streams: kept in the definitions store, and shown as their lag.

RabbitMQ keeps such offsets for clients of its stream protocol alone. Here any client may commit them, by the HTTP API.
Not a change of the administration: a group commits after each of its batches, and no log line is about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from broker.admin.administration import Administration
from broker.admin.protocol import AdministrationError, invalid
from broker.entities.queues.streams.stream_queue import CommittedOffset, Stream
from broker.entities.scheduling.future import Future
from broker.wire.amqp_errors import AmqpError
from storage.definitions.definition_rows import Change, Put, StreamOffsetRow, delete

GROUPS_MAX = 255
"""Groups that have committed an offset in one stream. RabbitMQ keeps as many publishers of a stream."""


async def commit_offsets(administration: Administration, group: str, offsets: Mapping[Stream, int]) -> None:
    """Note how far a group has read streams, all of them together. Returns when it is on disk.

    Raises AdministrationError: `invalid` for one group too many, `failed` where nothing could be written.
    """
    now = administration.broker.clock.now()
    for stream in offsets:
        if group not in stream.committed and len(stream.committed) >= GROUPS_MAX:
            raise invalid(
                f"{stream.where} has committed offsets of {len(stream.committed)} groups; the limit is {GROUPS_MAX}: "
                "DELETE /api/leveret/stream-offsets/VHOST/GROUP removes one"
            )

    def take(_: None) -> Future[None]:
        for stream, offset in offsets.items():
            stream.committed[group] = CommittedOffset(offset, now)
        return Future.resolved(None)

    rows = (StreamOffsetRow(stream.store.queue_id, group, offset, now) for stream, offset in offsets.items())
    await _written(administration, list(map(Put, rows)), take)


async def forget_offsets(administration: Administration, group: str, streams: Iterable[Stream]) -> None:
    """Forget a group in streams. Returns when that is on disk. Raises AdministrationError `failed`."""

    def take(_: None) -> Future[None]:
        for stream in streams:
            stream.committed.pop(group, None)
        return Future.resolved(None)

    rows = [delete(StreamOffsetRow, queue_id=stream.store.queue_id, group=group) for stream in streams]
    await _written(administration, rows, take)


async def _written(
    administration: Administration, changes: Sequence[Change], then: Callable[[None], Future[None]]
) -> None:
    """Write changes; memory follows in the order of the disk, also if nobody waits for the answer any more."""
    try:
        await administration.settled(administration.definitions.write(*changes).chain(then))
    except AmqpError as error:
        raise AdministrationError("failed", str(error)) from error
