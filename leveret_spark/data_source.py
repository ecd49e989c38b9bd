"""The data source `amqp`, as Spark finds it by its name."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from leveret_spark.option_errors import OptionError
from leveret_spark.options import Given, broker_of, headers_as, queues_of, reading_of, writing_of
from leveret_spark.queues.message_columns import Columns
from leveret_spark.queues.micro_batches import QueueStreamReader
from leveret_spark.queues.queue_reader import QueueReader
from leveret_spark.queues.sink import QueueStreamWriter, QueueWriter
from leveret_spark.spark_engine import DataSourceStreamArrowWriter
from leveret_spark.streams.stream_ends import is_stream
from leveret_spark.streams.stream_options import stream_reading_of
from leveret_spark.streams.stream_source import Streams, StreamsReader, StreamTableReader


class AmqpDataSource(DataSource):
    """Queues to read, exchanges to write to. Raises OptionError for options that mean nothing."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._broker = broker_of(options)
        self._columns = Columns(headers_as(options))

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def __repr__(self) -> str:
        return f"amqp({self._broker})"

    def schema(self) -> StructType:
        return self._columns.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check_schema(schema)
        if self._of_streams():
            reading = stream_reading_of(self.options, batch=True)
            return StreamTableReader(Streams(self._broker, reading, self._columns), reading)
        return QueueReader(self._broker, reading_of(self.options), self._columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        self._check_schema(schema)
        if self._of_streams():
            reading = stream_reading_of(self.options, batch=False)
            return StreamsReader(Streams(self._broker, reading, self._columns), reading)
        return QueueStreamReader(self._broker, reading_of(self.options), self._columns)

    def _of_streams(self) -> bool:
        """Ask the broker of the first: streams and other queues cannot be read together."""
        return is_stream(self._broker, queues_of(Given(self.options))[0])

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("mode overwrite is not supported: use mode append")
        return QueueWriter(self._broker, writing_of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return QueueStreamWriter(self._broker, writing_of(self.options), schema)

    def _check_schema(self, schema: StructType) -> None:
        if schema != self._columns.schema:
            raise OptionError("this source has a fixed schema: leave out schema()")
