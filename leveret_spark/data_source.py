"""The data source `amqp`, as Spark finds it by its name."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from leveret_spark.amqp.broker_api import management_of
from leveret_spark.option_errors import OptionError
from leveret_spark.option_uses import QUEUE_QUERY, QUEUE_TABLE, SINK, STREAM_QUERY, STREAM_TABLE, check_use
from leveret_spark.options import Given, Writing, broker_of, headers_as, queues_of, reading_of, writing_of
from leveret_spark.queues.message_columns import Columns
from leveret_spark.queues.micro_batches import QueueStreamReader
from leveret_spark.queues.queue_reader import QueueReader
from leveret_spark.queues.sink import QueueStreamWriter, QueueWriter
from leveret_spark.spark_engine import DataSourceStreamArrowWriter
from leveret_spark.streams.stream_ends import is_stream
from leveret_spark.streams.stream_names import partitions_of
from leveret_spark.streams.stream_options import stream_reading_of
from leveret_spark.streams.stream_source import Streams, StreamsReader, StreamTableReader


class AmqpDataSource(DataSource):
    """Queues to read, exchanges to write to. Raises OptionError for options that mean nothing."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._broker = broker_of(options)
        given = Given(options)
        self._columns = Columns(headers_as(options), broker_timestamp=given.flag("includeBrokerTimestamp", False))

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def __repr__(self) -> str:
        return f"amqp({self._broker})"

    def schema(self) -> StructType:
        return self._columns.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = self._columns.chosen(schema)
        if self._of_streams(STREAM_TABLE, QUEUE_TABLE):
            reading = stream_reading_of(self.options, self._broker, batch=True)
            return StreamTableReader(Streams(self._broker, reading, columns), reading)
        return QueueReader(self._broker, reading_of(self.options), columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        columns = self._columns.chosen(schema)
        if self._of_streams(STREAM_QUERY, QUEUE_QUERY):
            reading = stream_reading_of(self.options, self._broker, batch=False)
            return StreamsReader(Streams(self._broker, reading, columns), reading)
        return QueueStreamReader(self._broker, reading_of(self.options), columns)

    def _of_streams(self, streams: str, queues: str) -> bool:
        """Ask the broker of the first: streams and other queues cannot be read together. The two are uses."""
        given = Given(self.options)
        if any(given.has(name) for name in ("subscribePattern", "assign", "superStream")):
            check_use(given, streams)
            return True
        first = queues_of(given)[0]
        found = is_stream(self._broker, first)
        check_use(given, streams if found else queues, f": {first!r} is {'' if found else 'not '}a stream")
        return found

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("mode overwrite is not supported: use mode append")
        return QueueWriter(self._broker, self._writing(), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return QueueStreamWriter(self._broker, self._writing(), schema)

    def _writing(self) -> Writing:
        """The options of a sink; the partitions of a super stream are those that it has now."""
        given = Given(self.options)
        check_use(given, SINK)
        writing = writing_of(self.options)
        if writing.super_stream is None:
            return writing
        keys: dict[str, str] = {}  # by streams: of several bindings of one the first
        for each in partitions_of(management_of(given, self._broker), writing.super_stream):
            keys.setdefault(each.stream, each.key)
        return replace(writing, exchange=writing.super_stream, partition_keys=tuple(keys.values()))
