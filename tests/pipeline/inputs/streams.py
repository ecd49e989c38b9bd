"""Streams at a broker and their readers, and queries of the tests' Spark from their start to their end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret_spark.data_source import AmqpDataSource
from leveret_spark.queues.message_columns import Columns
from leveret_spark.streams.stream_position import Position
from leveret_spark.streams.stream_source import StreamsReader
from tests.pipeline.inputs.queue_client import Desk

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

QUERY_SECONDS = 180
GIVEN_UP = "Python worker failed to connect back"


def run_to_end(writer: DataStreamWriter, *places: Any) -> StreamingQuery:
    """Start a query that ends by itself, and return it when it has. Raises what it has failed with.

    Spark waits ten seconds for the process that plans a source, on the slowest machine too. A query that has ended for
    that has done nothing yet, and begins again.
    """
    from pyspark.errors import StreamingQueryException

    deadline = time.monotonic() + QUERY_SECONDS
    while True:
        query = writer.start(*places)
        try:
            assert query.awaitTermination(QUERY_SECONDS), "the query goes on"
        except StreamingQueryException as failed:
            if GIVEN_UP not in str(failed) or time.monotonic() > deadline:
                raise
        else:
            return query


def reader_of(desk: Desk, name: str, **options: str) -> StreamsReader:
    """A reader as the planner of a query has it."""
    told = {**desk.options, **({"queue": name} if name else {}), "startingOffsets": "earliest", **options}
    reader = AmqpDataSource(told).streamReader(Columns("json").schema)
    assert isinstance(reader, StreamsReader)
    return reader


def bodies(reader: DataSourceReader | StreamsReader, parts: Iterable[InputPartition]) -> list[int]:
    """Return the numbers that tasks read."""
    return [int(body) for part in parts for batch in reader.read(part) for body in batch.column("body").to_pylist()]


def publish(desk: Desk, name: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        desk.channel.basic_publish("", name, b"%50d" % number)


def grown(reader: StreamsReader, start: dict[str, Any], messages: int) -> dict[str, Any] | None:
    """The end of a batch, once it has a number of messages before it."""
    end = reader.latestOffset(start)
    return end if sum(Position.read(end).offsets.values()) == messages else None
