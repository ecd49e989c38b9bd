"""Publishing with confirms, a window at a time.

Waiting for each confirm costs a disk's sync for each message; a window of unconfirmed ones shares it. The connection
has a thread of its own, so that heartbeats are answered while Spark works out the next rows. What is unconfirmed is
kept: a connection that is lost is made again, and everything that waits is published once more, in its order. The
broker may then have it twice, under the same message id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from pika import BasicProperties, SelectConnection
from pika.adapters.select_connection import IOLoop
from pika.channel import Channel
from pika.exceptions import AMQPError
from pika.spec import Basic

from leveret_spark.amqp.client_connection import explained, is_hopeless, parameters
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker, Writing

PIECE = 200
"""Messages that go to the thread in one call: waking it costs as much as publishing a few."""

SAMPLES = 10
RETRY_SECONDS = 0.5
CLOSE_SECONDS = 10.0


class Outgoing(NamedTuple):
    """A message to be published."""

    exchange: str
    routing_key: str
    properties: BasicProperties
    body: bytes

    def looks_like(self, other: Outgoing) -> bool:
        """Whether both have the same place to go to, body and message id: what comes through the wire unchanged."""
        return self[:2] == other[:2] and self.body == other.body and self._id == other._id

    @property
    def _id(self) -> Any:
        return self.properties.message_id

    def __str__(self) -> str:
        return f"{self.properties.message_id} to {self.exchange!r} with {self.routing_key!r}"


@dataclass
class Outcome:
    """What became of messages: how many were confirmed, came back as unroutable, were refused; the first of these."""

    confirmed: int = 0
    returned: int = 0
    refused: int = 0
    samples: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        if len(self.samples) < SAMPLES:
            self.samples.append(what)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.confirmed + other.confirmed,
            self.returned + other.returned,
            self.refused + other.refused,
            (self.samples + other.samples)[:SAMPLES],
        )

    @property
    def lost(self) -> int:
        """How many messages no queue has."""
        return self.returned + self.refused

    def __str__(self) -> str:
        total = self.confirmed + self.refused
        return f"of {total} messages {self.returned} unroutable, {self.refused} refused: {'; '.join(self.samples)}"


class Publisher:
    """Publishes over one connection. Use it with `with`; `finish` says what became of everything."""

    def __init__(
        self, broker: Broker, writing: Writing, on_outcome: Callable[[Outgoing, bool], None] | None = None
    ) -> None:
        """`on_outcome` is called for each message, in a thread of ours: True if it was confirmed and routed, False if
        it was refused or may have been returned. Of messages that look alike, all are False when one is returned.
        """
        self._broker = broker
        self._writing = writing
        self._on_outcome = on_outcome
        self._came_back: set[int] = set()
        self._changed = threading.Condition()
        self._outcome = Outcome()
        self._failure: AmqpError | None = None
        self._connection: SelectConnection | None = None
        self._channel: Channel | None = None
        self._blocked = False
        self._ending = False
        self._piece: list[Outgoing] = []
        self._handed_over: list[Outgoing] = []
        self._unconfirmed: dict[int, Outgoing] = {}
        self._pending = 0
        self._next_tag = 1
        self._hope_ends: float | None = None
        self._thread = threading.Thread(target=self._run, name="amqp publisher", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._call(self._disconnect)
        self._thread.join(CLOSE_SECONDS)

    def publish(self, message: Outgoing) -> None:
        """Publish; wait while the window is full. Raises AmqpError when the broker cannot take it."""
        self._piece.append(message)
        if len(self._piece) >= min(PIECE, self._writing.window):
            self._hand_over()

    def finish(self) -> Outcome:
        """Return when everything is confirmed or refused. Raises AmqpError when it cannot be."""
        self._hand_over()
        self._wait(0)
        return self._outcome

    def _hand_over(self) -> None:
        self._wait(max(0, self._writing.window - len(self._piece)))
        with self._changed:
            self._pending += len(self._piece)
            self._handed_over.extend(self._piece)
        self._piece.clear()
        self._call(self._send)

    def _wait(self, most: int) -> None:
        """Wait until not more than so many messages are on their way. Raises AmqpError when nothing moves."""
        with self._changed:
            seen, deadline = self._pending, time.monotonic() + self._writing.confirm_timeout_seconds
            while self._pending > most and self._failure is None:
                self._changed.wait(max(0.0, deadline - time.monotonic()))
                if self._pending != seen:
                    seen, deadline = self._pending, time.monotonic() + self._writing.confirm_timeout_seconds
                elif time.monotonic() >= deadline:
                    self._failure = AmqpError(f"{self._broker}: {self._silence()}")
            if self._failure is not None:
                raise self._failure

    def _silence(self) -> str:
        why = "it holds publishers back (connection.blocked)" if self._blocked else "it does not answer"
        return f"no confirm for {self._writing.confirm_timeout_seconds} s, {self._pending} messages wait: {why}"

    def _call(self, function: Callable[[], None]) -> None:
        """Have the thread call something; with no connection nothing is called, and `_ready` sees to what waits."""
        with self._changed:
            if self._connection is not None:
                self._connection.ioloop.add_callback_threadsafe(function)

    # --- the thread ---

    def _run(self) -> None:
        """Connect, and again after each loss, until the publisher is closed or reconnecting has failed for too long."""
        while not self._ending and self._failure is None:
            loop = IOLoop()
            try:
                self._connection = SelectConnection(
                    parameters(self._broker, "publishes"),
                    on_open_callback=self._opened,
                    on_open_error_callback=self._lost,
                    on_close_callback=self._lost,
                    custom_ioloop=loop,
                )
                loop.start()
            except Exception as error:  # whatever it is, the task must hear of it rather than wait
                self._fail(error)
            with self._changed:
                self._connection = self._channel = None
            loop.close()
            with self._changed:
                if not self._ending and self._failure is None:
                    self._changed.wait(RETRY_SECONDS)

    def _opened(self, connection: Any) -> None:
        if self._ending:
            connection.close()
            return
        connection.add_on_connection_blocked_callback(lambda *_: self._set_blocked(True))
        connection.add_on_connection_unblocked_callback(lambda *_: self._set_blocked(False))
        connection.channel(on_open_callback=self._open_channel)

    def _open_channel(self, channel: Channel) -> None:
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._ready(channel))

    def _ready(self, channel: Channel) -> None:
        """Publish what the connection before this one left unconfirmed, then what has come since."""
        again = list(self._unconfirmed.values())
        self._unconfirmed.clear()
        self._came_back.clear()
        self._next_tag = 1
        self._channel = channel
        self._hope_ends = None
        with self._changed:
            self._handed_over[:0] = again
        self._send()

    def _send(self) -> None:
        channel = self._channel
        if channel is None:
            return
        with self._changed:
            messages, self._handed_over = self._handed_over, []
        try:
            for message in messages:
                self._unconfirmed[self._next_tag] = message
                self._next_tag += 1
                exchange, key, properties, body = message
                channel.basic_publish(exchange, key, body, properties, mandatory=self._writing.mandatory)
        except Exception as error:  # a value that the protocol has no place for; what it was is in the message
            self._fail(error)
            self._disconnect()

    def _confirmed(self, frame: Any) -> None:
        method: Basic.Ack | Basic.Nack = frame.method
        tags = [method.delivery_tag]
        if method.multiple:
            tags = []
            for tag in self._unconfirmed:  # in rising order
                if tag > method.delivery_tag > 0:
                    break
                tags.append(tag)
        confirmed = [(tag, message) for tag in tags if (message := self._unconfirmed.pop(tag, None))]
        messages = [message for _, message in confirmed]
        taken = isinstance(method, Basic.Ack)
        if self._on_outcome is not None:
            for tag, message in confirmed:
                self._on_outcome(message, taken and tag not in self._came_back)
        self._came_back.difference_update(tags)
        with self._changed:
            if taken:
                self._outcome.confirmed += len(messages)
            else:
                self._outcome.refused += len(messages)
                for message in messages:
                    self._outcome.note(f"refused {message}")
            self._pending -= len(messages)
            self._changed.notify_all()

    def _returned(self, _: Channel, method: Any, properties: Any, body: bytes) -> None:
        """A message comes back, before it is confirmed and without its number: all that look like it may be it."""
        message = Outgoing(method.exchange, method.routing_key, properties, body)
        if self._on_outcome is not None:
            alike = {tag for tag, each in self._unconfirmed.items() if each.looks_like(message)}
            self._came_back |= alike or self._unconfirmed.keys()
        with self._changed:
            self._outcome.returned += 1
            self._outcome.note(f"unroutable {message} ({method.reply_text})")

    def _set_blocked(self, blocked: bool) -> None:
        self._blocked = blocked

    def _channel_closed(self, _: Channel, reason: BaseException) -> None:
        """The broker has closed the channel, or its connection is lost, which `_lost` will hear of too."""
        self._channel = None
        if is_hopeless(reason) and not self._ending:
            self._fail(reason)
            self._disconnect()

    def _lost(self, connection: Any, reason: BaseException | str) -> None:
        """A connection ended, or did not come about."""
        error = reason if isinstance(reason, BaseException) else AMQPError(reason)
        if self._hope_ends is None:
            self._hope_ends = time.monotonic() + self._broker.reconnect_seconds
        if not self._ending and (is_hopeless(error) or time.monotonic() >= self._hope_ends):
            self._fail(error)
        connection.ioloop.stop()

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            if self._failure is None:
                self._failure = AmqpError(f"{self._broker}: {explained(error)}")
            self._changed.notify_all()

    def _disconnect(self) -> None:
        connection = self._connection
        if connection is not None and not (connection.is_closing or connection.is_closed):
            connection.close()
