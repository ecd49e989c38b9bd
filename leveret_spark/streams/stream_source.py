"""The Spark source for streams. Its offsets are `{queue: offset}`, the offset of the next message.

The planner only finds the ends of streams; tasks read ranges of offsets. A range always gives the same messages, so a
repeated batch is the same batch, and a sink that knows its batches (files, tables) has each message exactly once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from leveret_spark.option_errors import AmqpError, OptionError
from leveret_spark.options import Broker
from leveret_spark.queues.message_columns import Columns
from leveret_spark.spark_engine import HAS_LIMITS, ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from leveret_spark.streams.stream_ends import StreamEnds
from leveret_spark.streams.stream_identity import Identity, identities, replaced
from leveret_spark.streams.stream_options import Boundaries, StreamReading
from leveret_spark.streams.stream_position import Position
from leveret_spark.streams.stream_range import REPLACED, RangePartition, RangeRead

Offsets = dict[str, int]
DISCOVERY_SECONDS = 5.0
"""Time after which patterns and super streams are looked up again."""


class Streams:
    """Shared by both readers. It is sent to the tasks, without the connection of the planner."""

    def __init__(self, broker: Broker, reading: StreamReading, columns: Columns) -> None:
        self._broker = broker
        self._reading = reading
        self._columns = columns
        self._names: tuple[str, ...] | None = None
        self._named_at = 0.0
        self.ends = StreamEnds(broker)

    def names(self) -> tuple[str, ...]:
        """Return the streams to read; those of patterns and super streams are looked up again after a while."""
        now = time.monotonic()
        if self._names is None or (not self._reading.names.fixed and now > self._named_at + DISCOVERY_SECONDS):
            self._names, self._named_at = self._reading.names.now(), now
        return self._names

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a range, in a task."""
        assert isinstance(partition, RangePartition)
        reading = self._reading
        pieces = RangeRead(
            self._broker,
            partition,
            reading.prefetch,
            fails_on_loss=reading.fails_on_loss,
            stream_filter=reading.filter,
        )
        for messages in pieces:
            yield self._columns.of_stream(messages, partition.queue)

    def planned(self, start: Position, end: Position) -> list[InputPartition]:
        """Plan the ranges of a batch, in parts."""
        spans = [
            RangePartition(queue, begin, end.offsets[queue], end.identities.get(queue))
            for queue, begin in start.begins(end).items()
        ]
        total = sum(span.end - span.start for span in spans)
        return [part for span in spans if span.end > span.start for part in span.split(self._parts(span, total))]

    def _parts(self, span: RangePartition, total: int) -> int:
        """Return the number of tasks for a range of a batch of `total` offsets."""
        size, most = span.end - span.start, self._reading.part_messages
        wanted = round((self._reading.partitions or 1) * size / total)
        return max(1, wanted, 1 if most is None else -(-size // most))

    def resolved(self, boundaries: Boundaries, ends: Offsets) -> Offsets:
        """Boundaries as offsets, where the streams end at `ends`. Raises OptionError for a time without a message."""
        each = boundaries.of(tuple(ends))
        since = self.ends.since({queue: found for queue, found in each.items() if isinstance(found, datetime)})
        resolved = dict(ends)
        for queue, boundary in each.items():
            if isinstance(boundary, int):
                resolved[queue] = boundary
            elif boundary == "earliest":
                resolved[queue] = self.ends.first(queue)
            elif (first := since.get(queue)) is not None:
                resolved[queue] = min(first, ends[queue])
            elif isinstance(boundary, datetime) and boundaries.without is None:
                raise OptionError(
                    f"option {boundaries.option}: stream {queue!r} has no message at {boundary:%Y-%m-%d %H:%M:%S} UTC"
                    " or later; startingOffsetsByTimestampStrategy = latest begins at its end"
                )
        return resolved

    def check_offsets(self, boundaries: Boundaries, ends: Offsets, advice: str = "") -> None:
        """Raise AmqpError for an offset beyond the end of its stream."""
        for queue, boundary in boundaries.of(tuple(ends)).items():
            if isinstance(boundary, int) and boundary > ends[queue]:
                has = f"option {boundaries.option} has {boundary}"
                raise self.lost(queue, f"it ends at offset {ends[queue]}, {has}{advice}")

    def replaced(self, start: Position, ends: Offsets, unsure: set[str]) -> set[str]:
        """Return the streams that are not those of the start. Raises AmqpError for them where loss fails.

        `unsure` are the streams that may have been replaced without ending before the start.
        """
        gone = {queue for queue, end in ends.items() if end < start.offsets.get(queue, 0)}
        known = {queue: one for queue, one in start.identities.items() if queue in unsure - gone and one.moment}
        gone |= replaced(self.ends, known, ends)
        if gone and self._reading.fails_on_loss:
            queue = min(gone)
            been = f"it was read up to offset {start.offsets[queue]}, and ends at {ends[queue]}: {REPLACED}"
            raise self.lost(queue, f"{been}; failOnDataLoss = false reads it from its beginning")
        return gone

    def lost(self, queue: str, what: str) -> AmqpError:
        """The error for a stream that is not as it was left."""
        return AmqpError(f"stream {queue!r} of {self._broker}: {what}")

    def close(self) -> None:
        """Disconnect the planner."""
        self.ends.close()


class StreamTableReader(DataSourceReader):
    """Streams as a table, between two offsets."""

    def __init__(self, streams: Streams, reading: StreamReading) -> None:
        self._streams = streams
        self._reading = reading

    def partitions(self) -> list[InputPartition]:
        """Ranges. Never empty: Spark would make up a partition of its own."""
        streams, reading = self._streams, self._reading
        try:
            ends = streams.ends.ends(streams.names())
            start, end = streams.resolved(reading.starts, ends), streams.resolved(reading.ends, ends)
            known = identities(streams.ends, ends, {})
        finally:
            streams.close()
        if reading.fails_on_loss:
            for boundaries in (reading.starts, reading.ends):
                streams.check_offsets(boundaries, ends, "; failOnDataLoss = false reads what there is")
        end = {queue: max(start[queue], min(offset, ends[queue])) for queue, offset in end.items()}
        return streams.planned(Position(start, {}), Position(end, known)) or [RangePartition("", 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a partition, in a task."""
        return self._streams.rows(partition)


class StreamsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streams as a stream."""

    def __init__(self, streams: Streams, reading: StreamReading) -> None:
        self._streams = streams
        self._reading = reading
        self._target: Offsets | None = None
        self._seen: Offsets = {}
        """The ends, as they were found last."""
        self._sure_at = -1
        """Losses of the planner's connection up to which no stream can have been replaced."""
        self._began_at = float("-inf")
        """Time of the last batch."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as are those below
        ends = self._ends_now()
        self._streams.check_offsets(self._reading.starts, ends)
        return Position(
            self._streams.resolved(self._reading.starts, ends), identities(self._streams.ends, ends, {})
        ).told()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._reading.max_messages
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop where the streams end now."""
        self._target = self._ends_now()

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Any]:
        """Return the end of the next batch. Waits a little for a first message. Spark before 4.2 passes no argument."""
        if start is None:
            ends = self._target or self._ends_now()
            return Position(ends, identities(self._streams.ends, ends, {})).told()
        begun = Position.read(start)
        self._store(begun)
        ends = self._target or self._ends_after(begun.offsets)
        self._check(begun, ends)
        if self._waits_for_more(begun.offsets, ends):
            return start
        end = self._advanced(begun, ends)
        if end is None:
            return start
        return self._limited(begun, end, limit.max_rows if isinstance(limit, ReadMaxRows) else None).told()

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """Return the last known ends of the streams, for the progress of the query."""
        return self._seen or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges between two offsets. Their tasks check that each stream is still that of the end."""
        begun, ended = Position.read(start), Position.read(end)
        self._check(begun, ended.offsets)
        if not HAS_LIMITS:  # the end was found without the start
            gone = self._streams.replaced(begun, ended.offsets, set(ended.offsets))
            begun = begun._replace(offsets={queue: at for queue, at in begun.offsets.items() if queue not in gone})
        return self._streams.planned(begun, ended)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a partition, in a task."""
        return self._streams.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Store the offsets at the broker, if that is wanted. Spark before 4.2 says them only here, a batch later."""
        self._store(Position.read(end))

    def stop(self) -> None:
        """Disconnect."""
        self._streams.close()

    def _advanced(self, start: Position, ends: Offsets) -> Position | None:
        """Return the position at the ends; None where it is the start. Raises AmqpError for a replaced stream."""
        watched = self._streams.ends
        moved = {queue for queue, end in ends.items() if end != start.offsets.get(queue)}
        losses = watched.losses
        gone = self._streams.replaced(start, ends, moved if losses == self._sure_at else set(ends))
        self._sure_at = losses
        known = {queue: one for queue, one in start.identities.items() if queue in ends}
        for queue in gone | (ends.keys() - start.offsets.keys()):
            declaration = known[queue].declaration + 1 if queue in known else 0
            known[queue] = Identity(0, 0, declaration, watched.first(queue))
        changed = moved | gone
        if not changed:
            return None
        return Position(ends, known | identities(watched, {queue: ends[queue] for queue in changed}, known))

    def _waits_for_more(self, start: Offsets, ends: Offsets) -> bool:
        """True while there are fewer messages than minOffsetsPerTrigger, for at most maxTriggerDelay."""
        waiting = sum(max(0, end - start.get(queue, 0)) for queue, end in ends.items())
        due = time.monotonic() >= self._began_at + self._reading.delay_seconds
        if self._target is None and waiting < self._reading.min_messages and not due:
            return True
        if waiting:
            self._began_at = time.monotonic()
        return False

    def _limited(self, start: Position, end: Position, most: int | None) -> Position:
        """Reduce an end to a number of messages, and to about the bytes that a batch may have."""
        most_bytes = self._reading.max_bytes
        if most is not None:
            end = start.limited(end, most)
        if most_bytes is None:
            return end
        begins = start.begins(end)
        counts = {queue: end.offsets[queue] - begin for queue, begin in begins.items() if end.offsets[queue] > begin}
        sizes = self._streams.ends.sizes({queue: begins[queue] for queue in counts})
        size = sum(count * sizes[queue] for queue, count in counts.items())
        return end if size <= most_bytes else start.limited(end, max(1, int(sum(counts.values()) * most_bytes / size)))

    def _store(self, committed: Position) -> None:
        """Store offsets at the broker. Spark asks for the next batch when all before its start is committed."""
        if self._reading.commits is not None:
            self._reading.commits.store(committed.offsets)

    def _ends_now(self) -> Offsets:
        self._seen = self._streams.ends.ends(self._streams.names())
        return dict(self._seen)

    def _ends_after(self, start: Offsets) -> Offsets:
        """Return the ends of the streams, as soon as they are beyond the start, or after a short wait."""
        wait = self._reading.wait_seconds if self._seen == start else 0.0
        self._seen = self._streams.ends.ends_within(self._streams.names(), wait)
        return dict(self._seen)

    def _check(self, start: Position, there: Offsets) -> None:
        """Raise AmqpError for the offsets of another source, and where loss fails for streams that have left it."""
        gone = start.offsets.keys() - there.keys()
        if gone and gone == start.offsets.keys():
            names = ", ".join(map(repr, there))
            raise AmqpError(
                f"the checkpoint is not of the streams {names}, but of {start.offsets}: take another checkpointLocation"
            )
        if gone and self._reading.fails_on_loss:
            queue = min(gone)
            read = f"it was read up to offset {start.offsets[queue]}, and is not among the streams to read any more"
            raise self._streams.lost(queue, f"{read}; failOnDataLoss = false leaves it out")
