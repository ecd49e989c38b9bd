"""Micro-batches of a streaming query over a queue. The reader runs in the planner's process, one for each query.

Spark expects a log: offsets, and data between them that can be read again. A queue has neither: acknowledged messages
are gone, others come again. So an offset is a receipt: the run of the reader that gave it, and a count of messages.
Messages of a batch are kept here until Spark has committed the batch, and travel to the tasks inside the partitions, or
are fetched by the tasks if they are large (`waiting_messages`).

**When a batch is committed.** Spark calls `commit` only when it has found data for the next batch, so the last one
would wait forever. But it asks for that data with the offset up to which everything is committed (its commit log is
written): `latestOffset(start)` acknowledges up to `start`. With Trigger.AvailableNow it asks until there is no more
data, so the last batch is acknowledged too. It returns when the broker has handled the acknowledgements, because Spark
may kill this process right afterwards.

**After a restart** Spark may have planned a batch that it did not commit, and asks for its partitions. That run's
messages are back in the queue, and come in a batch of this run: that batch is empty.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from leveret_spark.amqp.received_message import Message
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker, Reading
from leveret_spark.queues.batch_intake import Batch, Intake, ready_messages
from leveret_spark.queues.message_columns import Columns
from leveret_spark.queues.waiting_messages import LARGE_BYTES, Ticket, WaitingMessages
from leveret_spark.spark_engine import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

Offset = dict[str, Any]
PARTITION_BYTES = 16 << 20
"""Bodies of one task: Spark serializes a task as a whole, several times over."""
NO_MESSAGES: Offset = {"run": "", "messages": 0}
ONCE = "Trigger.Once never says that its batch is committed, so nothing would be acknowledged: use Trigger.AvailableNow"


class MessagesPartition(InputPartition):
    """Messages on their way to a task, which may read them as often as it likes; or the ticket to fetch them with."""

    def __init__(self, queue: str, messages: list[Message]) -> None:
        super().__init__(len(messages))
        self.queue = queue
        self.messages = messages
        self.ticket: Ticket | None = None

    def wait_in(self, waiting: WaitingMessages) -> None:
        """Keep the messages beside the planner, for the task to fetch."""
        self.ticket, self.messages = waiting.keep(self.messages), []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.messages)} of {self.queue})"

    def rows(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Yield the messages as rows. Raises AmqpError if they cannot be fetched."""
        messages = self.messages if self.ticket is None else self.ticket.messages()
        if messages:
            yield columns.of_queue(messages, self.queue)


def partitioned(queue: str, messages: list[Message], partitions: int) -> list[MessagesPartition]:
    """Consecutive shares of nearly the same number, none of them empty; more of them where bodies are large."""
    parts = min(partitions, len(messages))
    cuts = [len(messages) * part // parts for part in range(parts + 1)] if parts else []
    shares = (messages[start:end] for start, end in pairwise(cuts))
    return [MessagesPartition(queue, piece) for share in shares for piece in _bounded(share)]


def _bounded(messages: list[Message]) -> Iterator[list[Message]]:
    """Yield pieces within the limit of bytes of bodies, or of one message."""
    piece: list[Message] = []
    size = 0
    for message in messages:
        if piece and size + len(message[0]) > PARTITION_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(message)
        size += len(message[0])
    yield piece


def _received(offset: Offset) -> int:
    """Return the number of messages up to an offset. Raises AmqpError for that of another source."""
    messages = offset.get("messages")
    if not isinstance(messages, int) or "run" not in offset:
        raise AmqpError(
            f"the checkpoint is not of a queue, whose offsets are like {NO_MESSAGES}, but of {str(offset)[:200]}: take"
            " another checkpointLocation"
        )
    return messages


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue batch by batch; the module says what commits a batch. Connects when it is first asked for data."""

    def __init__(self, broker: Broker, reading: Reading, columns: Columns) -> None:
        self._broker = broker
        self._reading = reading
        self._columns = columns
        self._run = uuid.uuid4().hex
        self._target: int | None = None
        self._intake: Intake | None = None
        self._planned: list[tuple[Offset, Batch]] = []
        self._asked_for: Offset = NO_MESSAGES
        self._waiting = WaitingMessages()

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, as are those below
        return NO_MESSAGES

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._reading.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop at the number of messages that are ready now; later ones are for the next run."""
        self._target = ready_messages(self._broker, self._reading.queue)

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802
        """Acknowledge up to `start`, which is committed, and gather the next batch.

        Spark before 4.2 passes no argument. Then the last batch is committed: Spark does not ask for another before.
        """
        if isinstance(limit, ReadAllAvailable):
            raise AmqpError(ONCE)
        start = self._asked_for if start is None else start
        _received(start)
        self.commit(start)
        if self._planned:  # it was gathered and never asked for
            return self._planned[-1][0]
        batch = self._opened().gather()
        if batch is None:
            return start
        end = {"run": self._run, "messages": _received(start) + len(batch.messages)}
        self._planned.append((end, batch))
        return end

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Figures of the queue for the progress of the query; `unacknowledged` messages are in batches."""
        if self._intake is None:
            return None
        unacknowledged = sum(len(batch.messages) for _, batch in self._planned)
        return {**self._intake.figures(), "unacknowledged": unacknowledged}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The messages of a batch; of one that an earlier run has planned there is nothing left here."""
        self._asked_for = end
        messages: list[Message] = []
        if start != end:
            for offset, batch in self._planned:
                messages.extend(batch.messages)
                if offset == end:
                    return self._parts(messages)
        return []

    def _parts(self, messages: list[Message]) -> list[InputPartition]:
        parts = partitioned(self._reading.queue, messages, self._reading.partitions)
        if sum(len(message[0]) for message in messages) > LARGE_BYTES:
            for part in parts:
                part.wait_in(self._waiting)
        return [*parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a partition, in a task."""
        assert isinstance(partition, MessagesPartition)
        return partition.rows(self._columns)

    def commit(self, end: Offset) -> None:
        """Acknowledge the messages of this run up to an offset. An offset of another run is ignored."""
        ends = [offset for offset, _ in self._planned]
        while end in ends:
            _, batch = self._planned.pop(0)
            self._waiting.drop()  # the batches behind it have not been asked for yet
            self._opened().settle(batch.marks)
            if ends.pop(0) == end:
                return

    def stop(self) -> None:
        """Disconnect; messages that were not committed are requeued."""
        self._waiting.close()
        if self._intake is not None:
            self._intake.close()
            self._intake = None

    def _opened(self) -> Intake:
        if self._intake is None:
            intake = Intake(self._broker, self._reading, self._target)
            try:
                intake.open()
            except BaseException:
                intake.close()
                raise
            self._intake = intake
        return self._intake
