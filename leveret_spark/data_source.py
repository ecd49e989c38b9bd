"""The data source `amqp`, as Spark finds it by its name."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from leveret_spark.option_errors import OptionError
from leveret_spark.options import broker_of, reading_of, writing_of
from leveret_spark.queues.message_columns import SCHEMA
from leveret_spark.queues.queue_reader import QueueReader
from leveret_spark.queues.sink import QueueStreamWriter, QueueWriter
from leveret_spark.queues.stream_source import QueueStreamReader
from leveret_spark.spark_engine import DataSourceStreamArrowWriter


class AmqpDataSource(DataSource):
    """Queues to read, exchanges to write to. Raises OptionError for options that mean nothing."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._broker = broker_of(options)

    @classmethod
    def name(cls) -> str:
        return "amqp"

    def __repr__(self) -> str:
        return f"amqp({self._broker})"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        self._check_schema(schema)
        return QueueReader(self._broker, reading_of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's names
        self._check_schema(schema)
        return QueueStreamReader(self._broker, reading_of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("mode overwrite is not supported: use mode append")
        return QueueWriter(self._broker, writing_of(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return QueueStreamWriter(self._broker, writing_of(self.options), schema)

    def _check_schema(self, schema: StructType) -> None:
        if schema != SCHEMA:
            raise OptionError("this source has a fixed schema: leave out schema()")
