"""The offset of a query that reads streams: the next offset of each, and which stream it was found in.

In Spark's checkpoint and progress it is `{"clicks": 1000, "$identity": {"clicks": [1764357483, 950, 0, 0]}}`. A
checkpoint of an older version has no identities.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret_spark.option_errors import AmqpError
from leveret_spark.streams.stream_identity import Identity

IDENTITY = "$identity"
"""The key beside the names of streams; a stream of this name cannot be read."""


class Position(NamedTuple):
    """The next offset of each stream, and the identities of those that have had messages."""

    offsets: dict[str, int]
    identities: dict[str, Identity]

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Position:
        """Read what Spark has kept. Raises AmqpError for the offsets of another source."""
        try:
            offsets = {queue: int(offset) for queue, offset in told.items() if queue != IDENTITY}
            return cls(offsets, {queue: Identity(*values) for queue, values in told.get(IDENTITY, {}).items()})
        except (AttributeError, TypeError, ValueError):
            raise AmqpError(
                f"the checkpoint is not of streams, whose offsets are like {{'clicks': 1}}, but of {str(told)[:200]}:"
                " take another checkpointLocation"
            ) from None

    def told(self) -> dict[str, Any]:
        """Return it as Spark keeps it."""
        identities = {queue: [*self.identities[queue]] for queue in self.offsets if queue in self.identities}
        return {**self.offsets, IDENTITY: identities} if identities else dict(self.offsets)

    def begins(self, end: Position) -> dict[str, int]:
        """Return where a batch from here to an end begins in each stream: elsewhere where the end is of another one."""
        return {queue: self._begin(queue, end) for queue in end.offsets}

    def limited(self, end: Position, most: int) -> Position:
        """Reduce an end to at most `most` messages from here, divided between the streams in proportion to theirs."""
        begins = self.begins(end)
        total = sum(end.offsets[queue] - begin for queue, begin in begins.items())
        if total <= most:
            return end
        shares = {queue: -(-most * (end.offsets[queue] - begin) // total) for queue, begin in begins.items()}
        return end._replace(offsets={queue: begins[queue] + share for queue, share in shares.items()})

    def _begin(self, queue: str, end: Position) -> int:
        offset, last = self.offsets.get(queue), end.offsets[queue]
        mine, its = self.identities.get(queue), end.identities.get(queue)
        again = mine is not None and its is not None and mine.declaration != its.declaration
        if offset is None or again or offset > last:
            return 0 if its is None else min(its.begin, last)
        return offset
