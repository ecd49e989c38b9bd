"""Intake of a source: messages of one queue over one or several connections, cut into batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pika.exceptions import AMQPError

from leveret_spark.amqp.client_connection import connected, explained
from leveret_spark.amqp.received_message import Message
from leveret_spark.amqp.subscription import Mark, Subscription
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker, Reading


class Batch(NamedTuple):
    """Messages, and what to settle when they are done with."""

    messages: list[Message]
    marks: list[Mark]


def ready_messages(broker: Broker, queue: str) -> int:
    """Return the number of ready messages of a queue. Raises AmqpError, also if there is no such queue."""
    try:
        connection = connected(broker, f"counts {queue}")
        try:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
        finally:
            if connection.is_open:
                connection.close()
    except (AMQPError, OSError) as error:
        raise AmqpError(f"queue {queue!r} of {broker}: {explained(error)}") from None


class Intake:
    """Connections to a queue. `target`: messages wanted in all; None: no limit."""

    def __init__(self, broker: Broker, reading: Reading, target: int | None = None) -> None:
        self._reading = reading
        self._target = target
        self._taken = 0
        self._turn = 0
        self._arrived = threading.Condition()
        prefetch = reading.prefetch
        if target is not None:  # with a larger prefetch the rest would be requeued, and marked as redelivered
            prefetch = max(1, min(prefetch, -(-target // reading.connections)))
        self._subscriptions = [
            Subscription(broker, reading.queue, prefetch, self._arrived) for _ in range(reading.connections)
        ]

    def open(self) -> None:
        """Connect, and return when all connections consume. Raises AmqpError when that cannot be."""
        for subscription in self._subscriptions:
            subscription.start()
        with self._arrived:
            while not all(subscription.connected for subscription in self._subscriptions):
                self._check()
                self._arrived.wait()

    def close(self) -> None:
        """Disconnect. Unacknowledged messages are requeued."""
        for subscription in self._subscriptions:
            subscription.close()

    def gather(self) -> Batch | None:
        """Take a batch. None when there is nothing: after a short while, or for good where there is a target.

        Raises AmqpError when a connection was lost and could not be made again.
        """
        with self._arrived:
            if self._target is None:
                self._wait(self._anything, self._reading.wait_seconds)
            elif self._taken < self._target:
                self._wait_for_more()
            if not self._anything() or self._wanted() == 0:
                return None
            self._wait(self._enough, self._reading.wait_seconds)
            return self._take()

    def settle(self, marks: Iterable[Mark]) -> None:
        """Acknowledge batches; returns when the broker has handled it. Messages of a lost connection come again."""
        for mark in marks:
            if not mark.subscription.settle(mark) and self._target is not None:
                self._target += mark.messages

    def figures(self) -> dict[str, int]:
        """Ready messages when the last batch was acknowledged; since the start: redelivered ones, lost connections."""
        each = self._subscriptions
        return {
            "ready": max(subscription.ready for subscription in each),
            "redelivered": sum(subscription.redelivered for subscription in each),
            "reconnects": sum(subscription.reconnects for subscription in each),
        }

    def _take(self) -> Batch:
        """Take from every connection in turn; who begins changes, so that none is forgotten."""
        batch, room = Batch([], []), self._reading.max_bytes
        count = len(self._subscriptions)
        for index in range(count):
            wanted = self._wanted() - len(batch.messages)
            if wanted == 0 or (batch.messages and room <= 0):
                break
            subscription = self._subscriptions[(self._turn + index) % count]
            messages, size, mark = subscription.take(wanted, room)
            room -= size
            batch.messages.extend(messages)
            if mark is not None:
                batch.marks.append(mark)
        self._turn += 1
        self._taken += len(batch.messages)
        return batch

    def _wanted(self) -> int:
        most = self._reading.max_messages
        return most if self._target is None else max(0, min(most, self._target - self._taken))

    def _anything(self) -> bool:
        return any(subscription.waiting for subscription in self._subscriptions)

    def _enough(self) -> bool:
        messages = sum(len(subscription.waiting) for subscription in self._subscriptions)
        held = sum(subscription.waiting_bytes for subscription in self._subscriptions)
        full = all(len(subscription.waiting) >= self._reading.prefetch for subscription in self._subscriptions)
        return messages >= self._wanted() or held >= self._reading.max_bytes or full

    def _wait_for_more(self) -> None:
        """Wait for messages that were there when we began. If others have taken them, none will come."""
        while not self._anything():
            self._wait(self._anything, self._reading.idle_seconds)
            if all(subscription.connected for subscription in self._subscriptions):
                return

    def _wait(self, until: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._check()
        while not until() and (left := deadline - time.monotonic()) > 0:
            self._arrived.wait(left)
            self._check()

    def _check(self) -> None:
        for subscription in self._subscriptions:
            if subscription.failure is not None:
                raise subscription.failure
