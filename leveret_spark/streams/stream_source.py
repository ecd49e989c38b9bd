"""The Spark source for streams. Its offsets are `{queue: offset}`, the offset of the next message.

The planner only finds the ends of streams; tasks read ranges of offsets. A range always gives the same messages, so a
repeated batch is the same batch, and a sink that knows its batches (files, tables) has each message exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker
from leveret_spark.queues.message_columns import Columns
from leveret_spark.spark_engine import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from leveret_spark.streams.stream_ends import StreamEnds
from leveret_spark.streams.stream_options import Boundary, StreamReading
from leveret_spark.streams.stream_range import RangePartition, RangeRead

Offsets = dict[str, int]


class Streams:
    """Shared by both readers. It is sent to the tasks, without the connections of the planner."""

    def __init__(self, broker: Broker, reading: StreamReading, columns: Columns) -> None:
        self._broker = broker
        self._reading = reading
        self._columns = columns
        self._ends: dict[str, StreamEnds] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_ends": {}}

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a range, in a task."""
        assert isinstance(partition, RangePartition)
        reading = self._reading
        for messages in RangeRead(self._broker, partition, reading.prefetch, fails_on_loss=reading.fails_on_loss):
            yield self._columns.of_stream(messages, partition.queue)

    def planned(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """Plan the ranges, in parts.

        A stream that ends before its start was declared again: it is read from offset 0.
        """
        queues = self._reading.queues
        spans = [RangePartition(name, start[name] if start[name] <= end[name] else 0, end[name]) for name in queues]
        total = sum(span.end - span.start for span in spans)
        parts = self._reading.partitions
        return [
            part
            for span in spans
            if span.end > span.start
            for part in span.split(max(1, round(parts * (span.end - span.start) / total)))
        ]

    def resolved(self, boundaries: Mapping[str, Boundary]) -> Offsets:
        """Boundaries as offsets."""
        return {queue: self._resolved(self.ends_of(queue), boundaries[queue]) for queue in self._reading.queues}

    def _resolved(self, ends: StreamEnds, boundary: Boundary) -> int:
        if isinstance(boundary, datetime):
            return ends.since(boundary)
        if isinstance(boundary, int):
            return boundary
        return ends.first() if boundary == "earliest" else ends.end()

    def not_before(self, start: Offsets, end: Offsets) -> Offsets:
        """Return an end not before the start, except for a stream that was declared again and may be read from 0.

        Raises AmqpError if it may not. A stream without messages keeps its offset.
        """
        for queue in self._reading.queues:
            if self._reading.fails_on_loss and 0 < end[queue] < start[queue]:
                stream = f"stream {queue!r} of {self._broker}"
                ends = f"it ends at offset {end[queue]} and was read up to {start[queue]}: deleted and declared again"
                raise AmqpError(f"{stream}: {ends}; failOnDataLoss = false reads it from its beginning")
        return {queue: end[queue] or start[queue] for queue in self._reading.queues}

    def ends_of(self, queue: str) -> StreamEnds:
        """Begin and end of a stream."""
        return self._ends.setdefault(queue, StreamEnds(self._broker, queue))

    def close(self) -> None:
        """Disconnect the planner."""
        for ends in self._ends.values():
            ends.close()
        self._ends.clear()


class StreamTableReader(DataSourceReader):
    """Streams as a table, between two offsets."""

    def __init__(self, streams: Streams, reading: StreamReading) -> None:
        self._streams = streams
        self._reading = reading

    def partitions(self) -> list[InputPartition]:
        """Ranges. Never empty: Spark would make up a partition of its own."""
        streams, reading = self._streams, self._reading
        try:
            start, end = streams.resolved(reading.starts), streams.resolved(reading.ends)
        finally:
            streams.close()
        end = {queue: max(start[queue], offset) for queue, offset in end.items()}
        if reading.max_messages is not None:
            end = _limited(start, end, reading.max_messages)
        return streams.planned(start, end) or [RangePartition(reading.queues[0], 0, 0)]

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

    def initialOffset(self) -> Offsets:  # noqa: N802 - Spark's name, as are those below
        return self._streams.resolved(self._reading.starts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._reading.max_messages
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop where the streams end now."""
        self._target = self._ends_now()

    def latestOffset(self, start: Offsets | None = None, limit: ReadLimit | None = None) -> Offsets:  # noqa: N802
        """Return the end of the next batch. Waits a little for a first message. Spark before 4.2 passes no argument."""
        if start is None:
            return self._target or self._ends_now()
        self._check(start)
        end = self._streams.not_before(start, self._target or self._ends_after(start))
        return _limited(start, end, limit.max_rows) if isinstance(limit, ReadMaxRows) else end

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """Return the last known ends of the streams, for the progress of the query."""
        return self._seen or None

    def partitions(self, start: Offsets, end: Offsets) -> list[InputPartition]:
        """The ranges between two offsets."""
        self._check(start)
        return self._streams.planned(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a partition, in a task."""
        return self._streams.rows(partition)

    def commit(self, end: Offsets) -> None:
        """A stream needs no acknowledgement."""

    def stop(self) -> None:
        """Disconnect."""
        self._streams.close()

    def _ends_now(self) -> Offsets:
        self._seen = {queue: self._streams.ends_of(queue).end() for queue in self._reading.queues}
        return dict(self._seen)

    def _ends_after(self, start: Offsets) -> Offsets:
        """Return the ends of the streams, as soon as they are beyond the start, or after a short wait."""
        wait = self._reading.wait_seconds / len(start) if self._seen == start else 0.0
        self._seen = {queue: self._streams.ends_of(queue).end_within(wait) for queue in self._reading.queues}
        return self._seen

    def _check(self, start: Offsets) -> None:
        """Raise AmqpError for the offsets of another source."""
        if start.keys() != set(self._reading.queues):
            names = ", ".join(map(repr, self._reading.queues))
            raise AmqpError(
                f"the checkpoint is not of the streams {names}, but of {start}: take another checkpointLocation"
            )


def _limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """Reduce an end to at most `most` messages, divided between the streams in proportion to theirs."""
    begin = {queue: offset if offset <= end[queue] else 0 for queue, offset in start.items()}
    total = sum(end[queue] - begin[queue] for queue in begin)
    if total <= most:
        return end
    return {queue: offset + -(-most * (end[queue] - offset) // total) for queue, offset in begin.items()}
