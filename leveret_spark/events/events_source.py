"""The data source `leveret-events`: sealed segments of an event log, as a table and as a stream.

Segments never change, and their names have an order. So the stream can be read again: its offset is the name of the
last segment of each node, a batch is the segments between two offsets, a task reads one segment. With Spark's file sink
each event arrives exactly once, also after kills.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from itertools import groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from leveret_events.segment_names import SegmentName, parse_name
from leveret_spark.events.event_columns import SCHEMA, record_batches
from leveret_spark.events.pushed_filters import condition, segments
from leveret_spark.events.removed_segments import check_end, check_start
from leveret_spark.events.sealed_segments import Segments, segments_of
from leveret_spark.option_errors import OptionError
from leveret_spark.options import WEB, Given
from leveret_spark.spark_engine import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

KNOWN = ("path", *WEB, "maxSegmentsPerBatch", "pushFilters", "failOnDataLoss")
SEGMENTS_PER_BATCH = 64

Offset = dict[str, str]
"""The last segment of each node that has been read."""


class LeveretEventsDataSource(DataSource):
    """The events in segments, of a directory or by HTTP. Raises OptionError for invalid options."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = Given(options)
        given.refuse_unknown(KNOWN)
        self._source = segments_of(given)
        self._most = given.number("maxSegmentsPerBatch", SEGMENTS_PER_BATCH, 1, 1 << 31)
        self._filters = given.flag("pushFilters", False)
        self._fails_on_loss = given.flag("failOnDataLoss", True)

    @classmethod
    def name(cls) -> str:
        return "leveret-events"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        # Spark refuses a reader that takes filters, unless its setting for that is on.
        return (FilteringEventsReader if self._filters else EventsReader)(self._source, _columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return EventsStreamReader(self._source, self._most, _columns(schema), fails_on_loss=self._fails_on_loss)


class SegmentPartition(InputPartition):
    """A segment for a task to read. None if there is nothing: Spark would make up a partition of its own."""

    def __init__(self, name: SegmentName | None) -> None:
        super().__init__(str(name))
        self.name = name


class EventsReader(DataSourceReader):
    """Reads the segments that exist when a query is planned."""

    def __init__(self, source: Segments, columns: pa.Schema) -> None:
        self._source = source
        self._columns = columns
        self._filters: list[Any] = []

    def partitions(self) -> list[InputPartition]:
        names = segments(self._source.names(), self._filters)
        return [SegmentPartition(name) for name in names] or [SegmentPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _events(self._source, partition, self._columns, condition(self._filters, self._columns.names))


class FilteringEventsReader(EventsReader):
    """An EventsReader that takes filters from Spark."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - Spark's name
        """Use filters to skip segments and rows; Spark applies all of them as well."""
        self._filters = filters
        return filters


class EventsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads segments as they are sealed."""

    def __init__(self, source: Segments, most: int, columns: pa.Schema, *, fails_on_loss: bool) -> None:
        self._source = source
        self._most = most
        self._columns = columns
        self._fails_on_loss = fails_on_loss
        self._now: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, as are those below
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note the last segment that is sealed now, where the query stops."""
        self._now = _last(self._source.names())

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """Advance by at most `maxSegmentsPerBatch` segments. Spark before 4.2 passes no argument, and gets all.

        Raises DataLossError for segments that are gone, where that fails.
        """
        if start is None or isinstance(limit, ReadAllAvailable):
            return _last(self._source.names())
        further = _between(self._source.names(start), start, self._now)
        if self._fails_on_loss:
            check_start(self._source, start, further)
        return {**start, **_last(further[: self._most])}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The segments between two offsets. Raises DataLossError for those that are gone, where that fails."""
        names = _between(self._source.names(start), start, end)
        if self._fails_on_loss:
            check_start(self._source, start, names)
            check_end(start, end, names)
        return [SegmentPartition(name) for name in names]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a segment, in a task. Raises FileNotFoundError for one that has gone, where that fails."""
        try:
            yield from _events(self._source, partition, self._columns)
        except FileNotFoundError:
            if self._fails_on_loss:
                raise

    def commit(self, end: Offset) -> None:
        """Do nothing: segments stay until the broker removes them."""


def _columns(schema: StructType) -> pa.Schema:
    """The columns of a schema that a query gives, so that no others are decoded. Raises OptionError."""
    ours = from_arrow_schema(SCHEMA)
    for part in schema:
        known = next((each for each in ours if each.name == part.name), None)
        if known is None or known.dataType != part.dataType or known.nullable > part.nullable:
            raise OptionError(f"schema() has {part.simpleString()}, and may have {ours.simpleString()}")
    return pa.schema([SCHEMA.field(part.name).with_nullable(part.nullable) for part in schema])


def _events(
    source: Segments, partition: InputPartition, columns: pa.Schema, wanted: pc.Expression | None = None
) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, SegmentPartition)
    if partition.name is not None:
        for batch in record_batches(partition.name, source.read(partition.name), columns):
            yield batch if wanted is None else batch.filter(wanted)


def _last(names: list[SegmentName]) -> Offset:
    return {node: str(max(of_node)) for node, of_node in groupby(sorted(names), key=attrgetter("node"))}


def _between(names: list[SegmentName], start: Offset, end: Offset | None) -> list[SegmentName]:
    """Segments behind one offset, up to another if there is one."""
    found = []
    for name in names:
        first = parse_name(start.get(name.node, ""))
        last = None if end is None else parse_name(end.get(name.node, ""))
        if (first is None or name > first) and (end is None or (last is not None and name <= last)):
            found.append(name)
    return found
