"""The identity of a stream, which tells it from one of the same name that was declared later.

AMQP 0-9-1 has no name for it. But a message keeps the time at which the broker took it, and a consumer can begin at a
time: so "the first message at 12:00:05 or later has offset 950" stays true, or becomes a higher offset when retention
removes it. A stream that is declared after 12:00:05 begins with offset 0, and all its messages are later: there the
same question finds a lower offset. Offsets of a query carry such a moment, of the latest second that was over when
they were found; it is asked again whenever a stream may have been replaced.

Leveret gives each offset to a message. RabbitMQ gives some to records of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from leveret_spark.streams.stream_ends import StreamEnds

RABBITMQ_RECORDS_MAX = 64
"""Offsets in a row that RabbitMQ takes for records of its own: offset tracking and deduplication."""

TIMELINE_OFFSETS = 1 << 30
"""Offsets in a row that Leveret leaves out only where a restored backup begins a new timeline."""


class Identity(NamedTuple):
    """A moment in whole seconds since 1970, and the first offset of that moment or later.

    `declaration` counts the streams of this name that a query has met, `begin` is where it began to read this one.
    """

    moment: int
    offset: int
    declaration: int = 0
    begin: int = 0

    @property
    def time(self) -> datetime:
        """The moment."""
        return datetime.fromtimestamp(self.moment, UTC)

    def holds(self, first: int | None) -> bool:
        """True if this can be the stream with this first offset of the moment, or with this end where there is none."""
        return first is None or first >= self.offset


def identities(streams: StreamEnds, ends: Mapping[str, int], known: Mapping[str, Identity]) -> dict[str, Identity]:
    """Find the latest identity of each stream that has messages. Of those that are known the counts stay.

    A moment of 0 is not known. A stream whose first message is of this second waits for the second to end.
    """
    moment = int(time.time())
    filled = {queue: end for queue, end in ends.items() if end > 0}
    found = _identities(streams, filled, moment)
    young = {queue: filled[queue] for queue, one in found.items() if one.offset == 0 and not _is_known(queue, known)}
    if young:
        time.sleep(max(0.0, moment + 1 - time.time()))
        found |= _identities(streams, young, moment + 1)
    return {queue: known.get(queue, one)._replace(moment=one.moment, offset=one.offset) for queue, one in found.items()}


def _is_known(queue: str, known: Mapping[str, Identity]) -> bool:
    return queue in known and known[queue].moment > 0


def _identities(streams: StreamEnds, ends: Mapping[str, int], moment: int) -> dict[str, Identity]:
    since = streams.since(dict.fromkeys(ends, datetime.fromtimestamp(moment, UTC)))
    return {
        queue: Identity(moment, end if (first := since[queue]) is None else min(first, end))
        for queue, end in ends.items()
    }


def replaced(streams: StreamEnds, known: Mapping[str, Identity], ends: Mapping[str, int]) -> set[str]:
    """Return the streams that are not those of the identities, and have ended up under their names."""
    since = streams.since({queue: one.time for queue, one in known.items()})
    return {
        queue for queue, one in known.items() if not one.holds(ends[queue] if since[queue] is None else since[queue])
    }


def is_replaced(streams: StreamEnds, queue: str, identity: Identity) -> bool:
    """True if the stream is not that of an identity."""
    since, before = streams.beginning({queue: [identity.time, max(0, identity.offset - 1)]})[queue]
    if since is None and identity.offset > 0:
        return before is None
    return not identity.holds(since)


def unexplained(streams: StreamEnds, size: int) -> str:
    """Return the meaning of offsets in a row that are in a stream and have no message; empty for the broker's own."""
    if streams.is_dense():
        if size >= TIMELINE_OFFSETS:
            return "are of no message: the broker was restored from a backup, and its streams began a new timeline"
        return "are of no message: the broker has set aside unreadable ones, or was restored from a backup"
    if size <= RABBITMQ_RECORDS_MAX:
        return ""
    return "have no message for AMQP 0-9-1: batches that a stream client compressed, or records of RabbitMQ's own"
