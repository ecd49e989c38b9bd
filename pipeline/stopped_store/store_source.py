"""The data source `leveret-store`: the messages of a stopped broker's store, as a table.

It reads with the broker's own readers, so its tasks need the broker's packages and the data directory: on this machine,
or mounted on all. Each task reads consecutive segments of one lane of a queue. While a
query is planned and while a task reads, no broker can start on the directory.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from leveret_spark.option_errors import OptionError
from leveret_spark.options import Given
from pipeline.stopped_store.data_directory import MESSAGES_DIRECTORY, is_wanted, opened
from pipeline.stopped_store.store_batches import SCHEMA, record_batches
from pipeline.stopped_store.store_rows import Owner, rows
from storage.batch import TRANSIENT_QUEUE
from storage.offline.offline_reader import Range, StoppedStore

KNOWN = ("path", "vhost", "queue", "segmentsPerPartition")
SEGMENTS_PER_PARTITION = 64
"""Segments that a task reads, of up to 512 messages and 256 KiB each: up to 16 MiB, unless messages are larger."""


class LeveretStoreDataSource(DataSource):
    """The messages in a data directory. Raises OptionError for options that mean nothing."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        given = Given(options)
        given.refuse_unknown(KNOWN)
        path = given.text("path")
        if not path:
            raise OptionError("option path is missing: the data directory of a broker that does not run")
        self._directory = Path(path.removeprefix("file://").removeprefix("file:"))
        self._vhost, self._queue = given.text("vhost"), given.text("queue")
        self._segments = given.number("segmentsPerPartition", SEGMENTS_PER_PARTITION, 1, 1 << 31)

    @classmethod
    def name(cls) -> str:
        return "leveret-store"

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return StoreReader(self._directory, self._vhost, self._queue, self._segments)


class RangePartition(InputPartition):
    """A range for a task to read, and its owner. None if there is nothing: Spark would make up a partition itself."""

    def __init__(self, part: Range | None, owner: Owner | None) -> None:
        super().__init__(part)
        self.part = part
        self.owner = owner


class StoreReader(DataSourceReader):
    """Reads the contents of the store at the planning of a query."""

    def __init__(self, directory: Path, vhost: str | None, queue: str | None, segments: int) -> None:
        self._directory = directory
        self._vhost = vhost
        self._queue = queue
        self._segments = segments

    def partitions(self) -> list[InputPartition]:
        with opened(self._directory) as directory:
            owners = directory.owners()
            found: list[InputPartition] = [
                RangePartition(part, owners.get(queue_id))
                for queue_id, lane in directory.messages.places()
                if queue_id < TRANSIENT_QUEUE and is_wanted(owners.get(queue_id), self._vhost, self._queue)
                for part in directory.messages.ranges(queue_id, lane, self._segments)
            ]
        return found or [RangePartition(None, None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangePartition)
        part, owner = partition.part, partition.owner
        if part is not None:
            with StoppedStore(self._directory / MESSAGES_DIRECTORY) as store:
                yield from record_batches(rows(store.messages(part), {part.queue_id: owner} if owner else {}))
