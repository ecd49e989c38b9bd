"""Rows to messages: `df.write` and `df.writeStream`.

Each task publishes its rows over a connection of its own and ends when the broker has confirmed all of them. A task
that fails is run again by Spark, and publishes again: at least once. A row without a `message_id` gets one that is the
same whenever the same row of the same batch is written (query, batch, partition, place in it): so consumers can tell.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from leveret_spark.amqp.publisher import Outcome, Publisher
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker, Writing
from leveret_spark.queues.refused_rows import RefusedRows
from leveret_spark.queues.rows import Rows, RowShape
from leveret_spark.spark_engine import DataSourceStreamArrowWriter

log = logging.getLogger("leveret_spark")


@dataclass
class Published(WriterCommitMessage):
    """Result of a task."""

    outcome: Outcome


class Sink:
    """Base of both writers, which are sent to the tasks."""

    def __init__(self, broker: Broker, writing: Writing, schema: StructType) -> None:
        self._broker = broker
        self._writing = writing
        self.shape = RowShape(schema, writing)
        self._run = uuid.uuid4().hex

    def write(self, iterator: Iterator[Any]) -> Published:
        """Publish the rows of a task, and return when all are confirmed.

        Raises AmqpError when the broker cannot take them, ValueError for a value that cannot be sent.
        """
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        source = f"{query}-{batch}" if query and batch else self._run
        prefix = f"{source}-{context.partitionId()}"
        rows, refused = Rows(self.shape, prefix), self._refused_rows(prefix)
        with Publisher(self._broker, self._writing, on_lost=refused.keep if refused else None) as publisher:
            for item in iterator:
                for message in rows.messages(item):
                    publisher.publish(message)
            outcome = publisher.finish()
        if refused is not None:
            refused.flush()
        if outcome.lost and self._writing.fails:
            raise AmqpError(f"{self._broker}: {outcome}")
        return Published(outcome)

    def _refused_rows(self, prefix: str) -> RefusedRows | None:
        path = self._writing.refused_path
        return None if path is None else RefusedRows(path, prefix)

    def report(self, messages: Sequence[WriterCommitMessage | None], what: str) -> None:
        """Say in the log how many rows no queue has, where they do not make the job fail."""
        done = [message.outcome for message in messages if isinstance(message, Published)]
        outcome = sum(done, Outcome())
        if outcome.lost:
            log.warning("leveret_spark: %s: %s", what, outcome)


class QueueWriter(Sink, DataSourceArrowWriter):
    """`df.write`."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.report(messages, "write")


class QueueStreamWriter(Sink, DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self.report(messages, f"batch {batchId}")
