"""A range of a stream's offsets, read by a task over a connection of its own.

Reading does not remove messages, so a range can be read any number of times with the same result. Acknowledgements only
grant credit. After a lost connection it reconnects at the next offset: the task gets each message once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from leveret_spark.amqp.client_connection import is_hopeless
from leveret_spark.amqp.queue_connection import RETRY_SECONDS
from leveret_spark.amqp.received_message import HEADERS_AT, Message, stream_offset
from leveret_spark.amqp.stream_looks import at
from leveret_spark.amqp.unacked_consumer import LOST, Delivery, UnackedConsumer, failure
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker
from leveret_spark.streams.stream_ends import StreamEnds
from leveret_spark.streams.stream_identity import Identity, is_replaced, unexplained
from leveret_spark.streams.stream_options import StreamFilter

PIECE_BYTES = 8 << 20
PIECE_SECONDS = 0.5
"""Limits of a piece that a task hands on: bytes of bodies, and seconds after its first message."""

SILENT_SECONDS = 5.0
"""Time without a message after which a task checks that the stream still reaches the end of its range."""


FILTERED_SILENT_SECONDS = 1.0
"""Time without a message after which the rest of a filtered range is read without the broker's filter."""

FILTER_HEADER = "x-stream-filter-value"

REPLACED = "it was deleted and declared again, or its broker restored from an older backup"


class RangePartition(InputPartition):
    """The offsets from `start` to `end`, without `end`, of the stream with an identity, if that is known."""

    def __init__(self, queue: str, start: int, end: int, identity: Identity | None = None) -> None:
        super().__init__((queue, start, end))
        self.queue = queue
        self.start = start
        self.end = end
        self.identity = identity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.queue} from {self.start} to {self.end})"

    def split(self, parts: int) -> list[RangePartition]:
        """Consecutive ranges of nearly the same size, none of them empty."""
        size = self.end - self.start
        cuts = [self.start + size * part // parts for part in range(parts + 1)]
        return [RangePartition(self.queue, start, end, self.identity) for start, end in pairwise(cuts) if start < end]


class RangeRead:
    """Reads one range; iterate over it for pieces of consecutive messages.

    Raises AmqpError when the broker cannot be reached for `reconnectSeconds`, and where `fails_on_loss` for messages of
    the range that are gone.
    """

    def __init__(
        self,
        broker: Broker,
        part: RangePartition,
        prefetch: int,
        *,
        fails_on_loss: bool,
        stream_filter: StreamFilter | None = None,
    ) -> None:
        self._broker = broker
        self._filter = stream_filter
        self._filtering = stream_filter is not None
        """The broker passes over other messages; not towards the end of the range, which it would not tell of."""
        self._streams = StreamEnds(broker)
        self._part = part
        self._prefetch = prefetch
        self._fails_on_loss = fails_on_loss
        self._next = part.start

    def __iter__(self) -> Iterator[list[Message]]:
        with self._streams:
            yield from self._all_pieces()

    def _all_pieces(self) -> Iterator[list[Message]]:
        """Yield the pieces of one connection after the other."""
        hope_ends = time.monotonic() + self._broker.reconnect_seconds
        while self._next < self._part.end:
            try:
                for piece in self._pieces():
                    yield piece
                    hope_ends = time.monotonic() + self._broker.reconnect_seconds
            except LOST as error:
                if is_hopeless(error) or time.monotonic() >= hope_ends:
                    raise failure(self._broker, self._part.queue, error) from None
                time.sleep(RETRY_SECONDS)

    def _pieces(self) -> Iterator[list[Message]]:
        """Yield the pieces of one connection."""
        arguments = {**at(self._next), **(_arguments(self._filter) if self._filter and self._filtering else {})}
        with UnackedConsumer(
            self._broker, self._part.queue, "reads", prefetch=self._prefetch, arguments=arguments
        ) as consumer:
            self._check_identity()
            while self._next < self._part.end:
                found = self._gather(consumer)
                if found:
                    consumer.allow_more(found[-1])
                    yield from filter(None, [self._wanted(found)])
                elif self._filtering:
                    self._filtering = False
                    return
                else:
                    self._check_end()

    def _check_identity(self) -> None:
        """Check that the stream, whose deletion would end the consumer, is the one that was planned."""
        identity = self._part.identity
        if identity is not None and is_replaced(self._streams, self._part.queue, identity):
            self._lost(f"offsets {self._next} to {self._part.end - 1} are gone: {REPLACED}")
            self._next = self._part.end

    def _gather(self, consumer: UnackedConsumer) -> list[Delivery]:
        """Take deliveries; none when there has been silence for long."""
        most = min(self._prefetch // 2, self._part.end - self._next)
        silence = FILTERED_SILENT_SECONDS if self._filtering else SILENT_SECONDS
        return consumer.gather(
            most, PIECE_BYTES, PIECE_SECONDS, lambda _: time.monotonic() - consumer.quiet_since > silence
        )

    def _wanted(self, found: list[Delivery]) -> list[Message]:
        """Return those of the range. Raises AmqpError for messages that are gone, where that fails."""
        numbered = [(stream_offset(delivery.message), delivery.message) for delivery in found]
        wanted = [(offset, message) for offset, message in numbered if offset is not None and offset >= self._next]
        if not wanted:
            return []
        offsets = [self._next - 1, *(offset for offset, _ in wanted)]
        self._explain([(last + 1, found) for last, found in pairwise(offsets) if found > last + 1])
        self._next = wanted[-1][0] + 1
        return [message for offset, message in wanted if offset < self._part.end and self._passes(message)]

    def _passes(self, message: Message) -> bool:
        """True for a message that the filter selects; RabbitMQ before 3.13 gives all, later ones those of a chunk."""
        if self._filter is None:
            return True
        value = (message[HEADERS_AT] or {}).get(FILTER_HEADER)
        return self._filter.unfiltered if value is None else value in self._filter.values

    def _explain(self, holes: list[tuple[int, int]]) -> None:
        """Find why offsets are missing: retention, which may have come while the range was read, or the broker.

        A hole is its first offset, and the offset behind it.
        """
        holes = [(start, end) for start, end in holes if start < self._part.end]
        if not holes:
            return
        first = self._streams.first(self._part.queue)
        for start, end in holes:
            last = min(end, self._part.end)
            kept = max(start, min(first, last))
            if start < kept:
                self._lost(f"offsets {start} to {kept - 1} were removed by retention before they were read")
            if kept < last and not self._filtering and (reason := unexplained(self._streams, end - kept)):
                self._lost(f"offsets {kept} to {last - 1} {reason}")

    def _check_end(self) -> None:
        end = self._streams.ends([self._part.queue])[self._part.queue]
        if end < self._part.end:
            self._lost(f"it ends at offset {end}, before {self._part.end}: {REPLACED}")
            self._next = self._part.end

    def _lost(self, what: str) -> None:
        if self._fails_on_loss:
            stream = f"stream {self._part.queue!r} of {self._broker}"
            raise AmqpError(f"{stream}: {what}; failOnDataLoss = false continues without them")


def _arguments(stream_filter: StreamFilter) -> dict[str, object]:
    """The arguments of a consumer with a filter."""
    return {"x-stream-filter": [*stream_filter.values], "x-stream-match-unfiltered": stream_filter.unfiltered}
