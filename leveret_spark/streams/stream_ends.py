"""First offset and end of a stream, found over AMQP alone.

AMQP 0-9-1 has no request for it, and RabbitMQ's message count is seconds behind. But a consumer shows it: it gets the
messages from `x-stream-offset` on, as far as its prefetch allows, before the broker answers the next request on
its channel. With a prefetch of 1 a consumer at `last` gets the last message (Leveret), or the last chunk (RabbitMQ, up
to some thousand messages that were published together): the highest offset of these is the end of the stream. At
`first`, or a time, the lowest one is the beginning.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from pika.exceptions import ChannelClosedByBroker

from leveret_spark.amqp.client_connection import is_hopeless
from leveret_spark.amqp.queue_connection import RETRY_SECONDS
from leveret_spark.amqp.received_message import stream_offset
from leveret_spark.amqp.unacked_consumer import LOST, UnackedConsumer, failure
from leveret_spark.options import PREFETCH_MAX, Broker

ARRIVAL_SECONDS = 10.0
"""Time that a counted message may take to arrive: Leveret delivers it once it is synced."""

Result = TypeVar("Result")


def at(where: str | int | datetime) -> dict[str, str | int | datetime]:
    """The arguments of a consumer that begins at `first`, `last`, an offset, or a time."""
    return {"x-stream-offset": where}


def patiently(broker: Broker, queue: str, action: Callable[[], Result]) -> Result:
    """Run an action, and repeat it while the broker is away. Raises AmqpError when that takes too long."""
    hope_ends = time.monotonic() + broker.reconnect_seconds
    while True:
        try:
            return action()
        except LOST as error:
            if is_hopeless(error) or time.monotonic() >= hope_ends:
                raise failure(broker, queue, error) from None
            time.sleep(RETRY_SECONDS)


def is_stream(broker: Broker, queue: str) -> bool:
    """True if a queue is a stream: no other type accepts a consumer with an offset. Raises AmqpError without a broker.

    False also for a queue that is missing or must not be read, which reading it will report.
    """

    def ask() -> bool:
        try:
            with UnackedConsumer(broker, queue, "looks at", prefetch=1, arguments=at("next")):
                return True
        except ChannelClosedByBroker:
            return False

    return patiently(broker, queue, ask)


class StreamEnds:
    """Begin and end of one stream. Keeps a connection at the end, so that to wait there costs nothing; `close` ends it.

    Its methods raise AmqpError.
    """

    def __init__(self, broker: Broker, queue: str) -> None:
        self._broker = broker
        self._queue = queue
        self._tail: UnackedConsumer | None = None
        self._end = 0

    def first(self) -> int:
        """The offset of the oldest message; 0 for an empty stream."""
        return patiently(self._broker, self._queue, lambda: self._lowest("first")) or 0

    def since(self, moment: datetime) -> int:
        """Return the first offset of a time or later, up to a chunk too early; the end if there is none."""
        found = patiently(self._broker, self._queue, lambda: self._lowest(moment))
        return self.end() if found is None else found

    def end(self) -> int:
        """The offset after the newest message; 0 for an empty stream."""
        return patiently(self._broker, self._queue, self._attach)

    def end_within(self, seconds: float) -> int:
        """Return the end; waits up to `seconds` for a message if none has come since the last call."""
        return patiently(self._broker, self._queue, lambda: self._moved(seconds))

    def close(self) -> None:
        """Disconnect."""
        if self._tail is not None:
            self._tail.__exit__()
            self._tail = None

    def _moved(self, seconds: float) -> int:
        try:
            if self._tail is not None and not _anything(self._tail, seconds):
                return self._end
        except LOST:  # it missed heartbeats during a batch, or the broker was away
            self.close()
        return self._attach()

    def _attach(self) -> int:
        """Resubscribe at the end of the stream, skipping what has arrived."""
        self.close()
        self._tail = UnackedConsumer(self._broker, self._queue, "follows", prefetch=1, arguments=at("last"))
        self._end = max(_delivered(self._tail), default=-1) + 1
        return self._end

    def _lowest(self, where: str | datetime) -> int | None:
        with UnackedConsumer(self._broker, self._queue, "looks at", prefetch=1, arguments=at(where)) as consumer:
            return min(_delivered(consumer, certain=where == "first"), default=None)


def _anything(consumer: UnackedConsumer, seconds: float) -> bool:
    """True if there is another delivery, waiting for it up to `seconds`."""
    deadline = time.monotonic() + seconds
    consumer.ready()
    return bool(consumer.gather(1, 1, 0, lambda _: time.monotonic() >= deadline))


def _delivered(consumer: UnackedConsumer, *, certain: bool = True) -> list[int]:
    """Offsets that a new consumer is given at once, which acknowledges them. `certain`: unless the stream is empty."""
    deadline = time.monotonic() + (ARRIVAL_SECONDS if consumer.ready() > 0 and certain else 0.0)
    deliveries = consumer.gather(PREFETCH_MAX, 1 << 62, 0, lambda _: time.monotonic() >= deadline)
    if deliveries:
        consumer.allow_more(deliveries[-1])
    offsets = (stream_offset(delivery.message) for delivery in deliveries)
    return [offset for offset in offsets if offset is not None]
