"""A queue as a table, for `spark.read`: its ready messages, up to a limit.

Spark does not tell a reader that its rows were written. So the default is to browse: messages are fetched when the
query is planned, and requeued, which marks them as redelivered. With `ack` = `after` each task consumes a share, and
acknowledges it when Spark has taken the last of its rows; if the job fails later, these messages are lost to it. To
lose nothing, use a streaming query with Trigger.AvailableNow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret_spark.amqp.received_message import Message
from leveret_spark.options import Broker, Reading
from leveret_spark.queues.batch_intake import Intake, ready_messages
from leveret_spark.queues.message_columns import Columns
from leveret_spark.queues.micro_batches import MessagesPartition, partitioned


class SharePartition(InputPartition):
    """A share of a number of messages, which the task fetches itself."""

    def __init__(self, messages: int) -> None:
        super().__init__(messages)
        self.messages = messages


class QueueReader(DataSourceReader):
    """Reads the messages that are ready when a query is planned, up to the limits of a batch."""

    def __init__(self, broker: Broker, reading: Reading, columns: Columns) -> None:
        self._broker = broker
        self._reading = reading
        self._columns = columns

    def partitions(self) -> list[InputPartition]:
        """Look, or say who takes how many. Never empty: Spark would make up a partition of its own."""
        reading = self._reading
        wanted = min(ready_messages(self._broker, reading.queue), reading.max_messages)
        wanted = min(wanted, reading.connections * reading.prefetch)
        if reading.acknowledged:
            shares = [(wanted + index) // reading.connections for index in range(reading.connections)]
            return [SharePartition(share) for share in shares]
        return [*partitioned(reading.queue, self._seen(wanted), reading.partitions)] or [MessagesPartition("", [])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a partition, in a task."""
        if isinstance(partition, MessagesPartition):
            return partition.rows(self._columns)
        assert isinstance(partition, SharePartition)
        return self._taken(partition.messages)

    def _seen(self, wanted: int) -> list[Message]:
        """Fetch messages and give them back: the connections end without an acknowledgement."""
        intake = Intake(self._broker, self._reading, wanted)
        messages: list[Message] = []
        room = self._reading.max_bytes
        try:
            intake.open()
            while room > 0 and (batch := intake.gather()):
                messages.extend(batch.messages)
                room -= sum(len(message[0]) for message in batch.messages)
        finally:
            intake.close()
        return messages

    def _taken(self, wanted: int) -> Iterator[pa.RecordBatch]:
        """Fetch messages, and acknowledge them when somebody asks for what comes after the last."""
        if wanted == 0:
            return
        intake = Intake(self._broker, self._reading.alone(), wanted)
        marks = []
        try:
            intake.open()
            while batch := intake.gather():
                marks += batch.marks
                yield self._columns.of_queue(batch.messages, self._reading.queue)
            intake.settle(marks[-1:])
        finally:
            intake.close()
