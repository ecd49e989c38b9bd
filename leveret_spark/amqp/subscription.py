"""One connection that consumes a queue, in a thread of its own.

A planner is busy for as long as a batch takes. So the connection has a thread that answers heartbeats and receives
messages, up to the prefetch; the planner takes them out, and acknowledges up to one of them later. After a lost
connection messages that were not taken are dropped: the broker delivers them again, to this or another consumer.
Messages that were taken cannot be acknowledged any more, and will come twice.

Each connection after a loss is another *incarnation*; a mark of an older one is void.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from typing import Any, NamedTuple

from pika.channel import Channel
from pika.spec import Basic, BasicProperties

from leveret_spark.amqp.queue_connection import Link
from leveret_spark.amqp.received_message import Message, message_of
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker

SETTLE_SECONDS = 30.0
LOOK_SECONDS = 0.05
Taken = tuple[Basic.Deliver, BasicProperties, bytes]


class Mark(NamedTuple):
    """The last message that was taken of one incarnation: all up to it are in a batch."""

    subscription: Subscription
    incarnation: int
    delivery_tag: int
    messages: int


class Subscription:
    """Consumes until it is closed.

    Its state is guarded by the condition `arrived`, which is notified of every change.
    """

    def __init__(self, broker: Broker, queue: str, prefetch: int, arrived: threading.Condition) -> None:
        self.connected = False
        self.waiting: deque[Taken] = deque()
        self.waiting_bytes = 0
        self.ready = 0
        """Messages that were ready in the queue when the last batch was acknowledged."""
        self.redelivered = 0
        self._broker = broker
        self._queue = queue
        self._prefetch = prefetch
        self._arrived = arrived
        self._incarnation = 0
        self._channel: Channel | None = None
        self._received: list[Taken] = []
        self._link = Link(broker, f"reads {queue}", arrived, self._consume, self._forget)
        self._link.subject = f"queue {queue!r} of {broker}"

    # --- for the planner ---

    def start(self) -> None:
        """Connect, and return before that is done."""
        self._link.start()

    @property
    def failure(self) -> AmqpError | None:
        """The error that has ended it."""
        return self._link.failure

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
            self.redelivered += method.redelivered
            taken.append(message_of(method, properties, body))
        self.waiting_bytes -= size
        return taken, size, Mark(self, self._incarnation, tag, len(taken)) if taken else None

    @property
    def reconnects(self) -> int:
        """Number of lost connections."""
        return self._incarnation

    def settle(self, mark: Mark) -> bool:
        """Acknowledge everything up to the mark; return when the broker has obeyed. False when that was too late."""
        done = threading.Event()
        if mark.incarnation != self._incarnation or not self._link.call(partial(self._acknowledge, mark, done)):
            return False
        deadline = time.monotonic() + SETTLE_SECONDS
        while not done.wait(LOOK_SECONDS):
            if mark.incarnation != self._incarnation or not self._link.alive or time.monotonic() > deadline:
                return done.is_set()
        return True

    def close(self) -> None:
        """End the connection; the broker requeues the unacknowledged messages."""
        self._link.close(self._broker.connect_timeout_seconds)

    # --- in the thread ---

    def _consume(self, channel: Channel) -> None:
        channel.add_on_cancel_callback(lambda _: self._link.disconnect())  # is the queue gone? Asking again will tell
        channel.basic_qos(prefetch_count=self._prefetch)
        channel.basic_consume(self._queue, self._receive, callback=partial(self._consuming, channel))

    def _consuming(self, channel: Channel, _: object) -> None:
        self._link.is_well()
        self._channel = channel
        with self._arrived:
            self.connected = True
            self._arrived.notify_all()

    def _receive(self, channel: Channel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        """Note a delivery. All that come in one piece are handed over together: the planner is woken once."""
        if not self._received:
            channel.connection.ioloop.call_later(0, self._hand_over)
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
        self._channel.queue_declare(self._queue, passive=True, callback=partial(self._acknowledged, done))

    def _acknowledged(self, done: threading.Event, counted: Any) -> None:
        self.ready = int(counted.method.message_count)
        done.set()

    def _forget(self) -> None:
        """Drop what a lost connection has brought."""
        self._channel = None
        with self._arrived:
            self.connected = False
            self._incarnation += 1
            self._received.clear()
            self.waiting.clear()
            self.waiting_bytes = 0
            self._arrived.notify_all()
