"""One connection that consumes a queue, in a thread of its own.

A planner is busy with other things for as long as a batch takes. So the connection has a thread that answers heartbeats
and takes what comes, as much as the prefetch allows; the planner takes messages out of it, and later says up to which
one it is done. When the connection is lost, what has not been taken is thrown away: the broker gives it again, to us or
to somebody else. What had been taken cannot be acknowledged any more, and will come twice.

Each connection after a loss is another *incarnation*; a mark of an older one is void.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import pika
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ConsumerCancelled
from pika.spec import Basic, BasicProperties

from leveret_spark.amqp.client_connection import explained, is_hopeless, parameters
from leveret_spark.amqp.received_message import Message, message_of
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker

RETRY_SECONDS = 0.5
SETTLE_SECONDS = 30.0
LOOK_SECONDS = 0.05
CURABLE = (AMQPError, OSError)
Taken = tuple[Basic.Deliver, BasicProperties, bytes]


class Mark(NamedTuple):
    """The last message that was taken of one incarnation: all up to it are in a batch."""

    subscription: Subscription
    incarnation: int
    delivery_tag: int
    messages: int


class Subscription(threading.Thread):
    """Consumes until it is closed. What it shows is guarded by `arrived`, which is notified of every change."""

    def __init__(self, broker: Broker, queue: str, prefetch: int, arrived: threading.Condition) -> None:
        super().__init__(name=f"amqp consumer of {queue}", daemon=True)
        self.connected = False
        self.failure: AmqpError | None = None
        self.waiting: deque[Taken] = deque()
        self.waiting_bytes = 0
        self._broker = broker
        self._queue = queue
        self._prefetch = prefetch
        self._arrived = arrived
        self._incarnation = 0
        self._closing = threading.Event()
        self._channel: BlockingChannel | None = None
        self._received: list[Taken] = []

    # --- for the planner ---

    def take(self, messages_max: int, bytes_max: int) -> tuple[list[Message], int, Mark | None]:
        """Take the oldest messages and their bytes, with `arrived` held; one that is too large comes alone.

        The mark is what `settle` wants when they are done with; None where nothing was taken.
        """
        taken: list[Message] = []
        size = tag = 0
        while self.waiting and len(taken) < messages_max and (size + len(self.waiting[0][2]) <= bytes_max or not taken):
            method, properties, body = self.waiting.popleft()
            tag = method.delivery_tag
            size += len(body)
            taken.append(message_of(method, properties, body))
        self.waiting_bytes -= size
        return taken, size, Mark(self, self._incarnation, tag, len(taken)) if taken else None

    def settle(self, mark: Mark) -> bool:
        """Acknowledge everything up to the mark; return when the broker has obeyed. False when that was too late."""
        done = threading.Event()
        if mark.incarnation != self._incarnation or not self._call(partial(self._acknowledge, mark, done)):
            return False
        deadline = time.monotonic() + SETTLE_SECONDS
        while not done.wait(LOOK_SECONDS):
            if mark.incarnation != self._incarnation or not self.is_alive() or time.monotonic() > deadline:
                return done.is_set()
        return True

    def close(self) -> None:
        """End the connection; the broker puts what was not acknowledged back into the queue."""
        self._closing.set()
        channel = self._channel
        if channel is not None:
            self._call(channel.stop_consuming)
        if self.is_alive():
            self.join(self._broker.connect_timeout_seconds)

    def _call(self, function: Callable[[], None]) -> bool:
        """Have the thread call something between two deliveries. False when there is no connection."""
        channel = self._channel
        try:
            if channel is not None:
                channel.connection.add_callback_threadsafe(function)
        except AMQPError:
            return False
        return channel is not None

    # --- the thread ---

    def run(self) -> None:
        """Connect and consume, again after each loss, until this is closed or reconnecting failed for too long."""
        hope_ends = time.monotonic() + self._broker.reconnect_seconds
        while not self._closing.is_set():
            try:
                with self._consuming() as channel:
                    channel.start_consuming()
                    if not self._closing.is_set():
                        raise ConsumerCancelled  # the queue is gone, perhaps: asking again will tell
            except Exception as error:  # whatever it is, the query must hear of it rather than wait
                if self.connected:
                    hope_ends = time.monotonic() + self._broker.reconnect_seconds
                self._forget()
                curable = isinstance(error, CURABLE) and not is_hopeless(error)
                if not curable or time.monotonic() >= hope_ends:
                    self._give_up(error)
                    return
                self._closing.wait(RETRY_SECONDS)

    @contextmanager
    def _consuming(self) -> Iterator[BlockingChannel]:
        connection = pika.BlockingConnection(parameters(self._broker, f"reads {self._queue}"))
        try:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=self._prefetch)
            self._channel = channel
            channel.basic_consume(self._queue, self._receive)
            with self._arrived:
                self.connected = True
                self._arrived.notify_all()
            yield channel
        finally:
            self._channel = None
            if connection.is_open:
                connection.close()

    def _receive(
        self, channel: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes
    ) -> None:
        """Note a delivery. All that come in one piece are handed over together: the planner is woken once."""
        if not self._received:
            channel.connection.call_later(0, self._hand_over)
        self._received.append((method, properties, body))

    def _hand_over(self) -> None:
        with self._arrived:
            self.waiting.extend(self._received)
            self.waiting_bytes += sum(len(body) for _, _, body in self._received)
            self._arrived.notify_all()
        self._received.clear()

    def _acknowledge(self, mark: Mark, done: threading.Event) -> None:
        """Acknowledge, and ask something that is answered after it: a process that is killed next has not lost it."""
        if mark.incarnation != self._incarnation or self._channel is None:
            return
        self._channel.basic_ack(mark.delivery_tag, multiple=True)
        self._channel.basic_qos(prefetch_count=self._prefetch)
        done.set()

    def _forget(self) -> None:
        """Drop what a lost connection has brought."""
        with self._arrived:
            self.connected = False
            self._incarnation += 1
            self._received.clear()
            self.waiting.clear()
            self.waiting_bytes = 0
            self._arrived.notify_all()

    def _give_up(self, error: BaseException) -> None:
        with self._arrived:
            self.failure = AmqpError(f"queue {self._queue!r} of {self._broker}: {explained(error)}")
            self._arrived.notify_all()
