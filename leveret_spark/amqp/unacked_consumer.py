"""Messages of a queue, consumed at the caller's pace and held unacknowledged until it settles them.

A stream's planner is ahead of its tasks, so its subscriptions read as fast as they can (`subscription`). A command that
writes messages into files, or looks through them, must not hold more of them in memory than it has asked for: here the
socket is read only while the caller waits for messages; the rest stay in the broker and in the socket's buffers.
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
"""How often a wait checks whether to stop."""

QUIET_SECONDS, SILENT_SECONDS = 1.0, 5.0
"""How long nothing comes of a queue that says it is empty, and of one that does not, until it is taken to be empty."""

PULSE_SECONDS = 5.0
"""How often heartbeats are sent while another thread works."""

LOST = (AMQPError, OSError)
"""What pika raises when a connection is lost."""


Result = TypeVar("Result")


class Delivery(NamedTuple):
    """A message, and the number by which it is settled."""

    tag: int
    message: Message


class UnackedConsumer:
    """One connection that consumes a queue. Not for several threads. Use it with `with`.

    Its methods raise what LOST names when the connection is lost; `failure` has that in words.
    """

    def __init__(
        self, broker: Broker, queue: str, purpose: str, *, prefetch: int, arguments: dict[str, Any] | None = None
    ) -> None:
        """`prefetch` is how many may be out at a time; 0: any number. What cannot be said is any number, too.

        `arguments` are those of `basic.consume`.
        """
        self._queue = queue
        self._arguments = arguments
        self._waiting: deque[Delivery] = deque()
        self._consumer = ""
        self._gone = False
        self.quiet_since = time.monotonic()
        """When the last message came."""
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
        """Disconnect; the broker puts what was not settled back into the queue."""
        try:
            if self._connection.is_open:
                self._connection.close()
        except LOST:  # it is gone, which is what was wanted
            pass

    def ready(self) -> int:
        """How many messages are ready. What was delivered before the answer is taken in."""
        count = int(self._channel.queue_declare(self._queue, passive=True).method.message_count)
        self._connection.process_data_events(time_limit=0)
        return count

    def is_empty(self) -> bool:
        """Nothing comes any more: nothing is ready, or what is ready goes to others."""
        asked_at = time.monotonic()
        quiet = asked_at - self.quiet_since
        if quiet < QUIET_SECONDS or (self.ready() > 0 and quiet < SILENT_SECONDS):
            return False
        return self.quiet_since < asked_at

    def gather(
        self, messages_max: int, bytes_max: int, seconds: float, is_over: Callable[[int], bool]
    ) -> list[Delivery]:
        """Take messages until there are so many, or so many bytes of bodies, or so many seconds after the first.

        `is_over` is asked now and then, with how many there are, whether to wait no longer.
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
        """Acknowledge everything up to a delivery; return when the broker has obeyed."""
        self._channel.basic_ack(last.tag, multiple=True)
        self.ready()  # answered after the acknowledgement: a process that is killed next has not lost it

    def allow_more(self, last: Delivery) -> None:
        """Acknowledge up to a delivery of a stream, to which it says only that the consumer has room for more."""
        self._channel.basic_ack(last.tag, multiple=True)

    def acknowledge(self, tags: Iterable[int]) -> None:
        """Acknowledge some, in any order; return when the broker has obeyed."""
        for tag in tags:
            self._channel.basic_ack(tag)
        self.ready()

    def take_only(self, wanted: int) -> None:
        """Have no more than so many come, from now on: the broker would mark what goes back as redelivered."""
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
    """The error for a connection that was refused or lost, with the queue and the broker."""
    return AmqpError(f"queue {queue!r} of {broker}: {explained(error)}")
