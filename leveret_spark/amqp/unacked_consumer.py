"""A consumer at the caller's pace: messages of a queue stay unacknowledged until the caller settles them.

The planner of a streaming query is ahead of its tasks, so it reads as fast as it can (`subscription`). A command that
writes messages into files, or searches them, must not hold more in memory than it has asked for: here the socket is
read only while the caller waits for messages; the rest stay in the broker and in the socket's buffers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self, TypeVar

from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ConsumerCancelled
from pika.spec import Basic, BasicProperties

from leveret_spark.amqp.client_connection import connected, explained
from leveret_spark.amqp.received_message import Message, message_of
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import PREFETCH_MAX, Broker

LOOK_SECONDS = 0.2
"""Interval at which a wait checks whether to stop."""

QUIET_SECONDS, SILENT_SECONDS = 1.0, 5.0
"""Time without a message after which a queue counts as empty: with a message count of 0, and with a higher one."""

PULSE_SECONDS = 5.0
"""Interval of heartbeats while another thread works."""

LOST = (AMQPError, OSError)
"""Errors that pika raises for a lost connection."""


Result = TypeVar("Result")


class Delivery(NamedTuple):
    """A message and its delivery tag."""

    tag: int
    message: Message


class UnackedConsumer:
    """One connection that consumes a queue. For one thread. Use it with `with`.

    Its methods raise the errors in LOST if the connection is lost; `failure` converts these for the user.
    """

    def __init__(
        self, broker: Broker, queue: str, purpose: str, *, prefetch: int, arguments: dict[str, Any] | None = None
    ) -> None:
        """`prefetch`: unacknowledged messages at most; 0, or more than AMQP can express: any number.

        `arguments` are those of `basic.consume`.
        """
        self._queue = queue
        self._arguments = arguments
        self._waiting: deque[Delivery] = deque()
        self._consumer = ""
        self._gone = False
        self.quiet_since = time.monotonic()
        """Time of the last message, by the monotonic clock."""
        self._connection = connected(broker, f"{purpose} {queue}")
        self._channel: BlockingChannel = self._connection.channel()
        self._channel.add_on_cancel_callback(self._cancelled)
        try:
            self._consume(prefetch)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect; the broker requeues the unacknowledged messages."""
        try:
            if self._connection.is_open:
                self._connection.close()
        except LOST:  # it is closed already
            pass

    def ready(self) -> int:
        """Return the number of ready messages. Deliveries before the answer are received meanwhile."""
        count = int(self._channel.queue_declare(self._queue, passive=True).method.message_count)
        self._connection.process_data_events(time_limit=0)
        return count

    def is_empty(self) -> bool:
        """True if no more messages come: none is ready, or all go to other consumers."""
        asked_at = time.monotonic()
        quiet = asked_at - self.quiet_since
        if quiet < QUIET_SECONDS or (self.ready() > 0 and quiet < SILENT_SECONDS):
            return False
        return self.quiet_since < asked_at

    def gather(
        self, messages_max: int, bytes_max: int, seconds: float, is_over: Callable[[int], bool]
    ) -> list[Delivery]:
        """Take messages until there are `messages_max`, or `bytes_max` of bodies, or `seconds` after the first.

        Stops earlier if `is_over`, called every LOOK_SECONDS with the number taken so far, returns True.
        """
        taken: list[Delivery] = []
        size, deadline = 0, float("inf")
        while True:
            while self._waiting and len(taken) < messages_max and size < bytes_max:
                taken.append(self._waiting.popleft())
                size += len(taken[-1].message[0])
            if taken and deadline == float("inf"):
                deadline = time.monotonic() + seconds
            left = deadline - time.monotonic()
            if len(taken) >= messages_max or size >= bytes_max or left <= 0 or is_over(len(taken)):
                return taken
            self._connection.process_data_events(time_limit=min(LOOK_SECONDS, left))
            if self._gone:
                raise ConsumerCancelled

    def settle(self, last: Delivery) -> None:
        """Acknowledge everything up to a delivery; returns when the broker has handled it."""
        self._channel.basic_ack(last.tag, multiple=True)
        self.ready()  # answered after the acknowledgement: a process that is killed next has not lost it

    def allow_more(self, last: Delivery) -> None:
        """Acknowledge up to a delivery of a stream: this only grants credit for more messages."""
        self._channel.basic_ack(last.tag, multiple=True)

    def acknowledge(self, tags: Iterable[int]) -> None:
        """Acknowledge deliveries, in any order; returns when the broker has handled it."""
        for tag in tags:
            self._channel.basic_ack(tag)
        self.ready()

    def take_only(self, wanted: int) -> None:
        """Receive at most `wanted` more messages: the broker marks requeued ones as redelivered."""
        if 0 < self._prefetch <= wanted:
            return
        if self._consumer:
            self._channel.basic_cancel(self._consumer)
            self._consumer = ""
        if wanted > len(self._waiting):
            self._consume(wanted - len(self._waiting))

    def meanwhile(self, work: Callable[[], Result]) -> Result:
        """Run work in another thread while heartbeats are sent. Raises its error, or the loss of the connection."""
        with ThreadPoolExecutor(1) as threads:
            done = threads.submit(work)
            while True:
                try:
                    return done.result(PULSE_SECONDS)
                except TimeoutError:
                    if done.done():
                        raise
                    self._connection.process_data_events(time_limit=0)

    def _consume(self, prefetch: int) -> None:
        self._prefetch = prefetch if prefetch <= PREFETCH_MAX else 0
        self._channel.basic_qos(prefetch_count=self._prefetch)
        self._consumer = self._channel.basic_consume(self._queue, self._receive, arguments=self._arguments)

    def _receive(self, _: BlockingChannel, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> None:
        self._waiting.append(Delivery(method.delivery_tag, message_of(method, properties, body)))
        self.quiet_since = time.monotonic()

    def _cancelled(self, _: object) -> None:
        """The broker has cancelled the consumer: the queue was deleted, which the next request to it confirms."""
        self._gone = True


def failure(broker: Broker, queue: str, error: BaseException) -> AmqpError:
    """Return the error for a refused or lost connection, with queue and broker."""
    return AmqpError(f"queue {queue!r} of {broker}: {explained(error)}")
