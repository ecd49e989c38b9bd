"""Publishing with confirms, a window at a time.

Waiting for each confirm costs a disk sync for each message; a window of unconfirmed messages shares it. The connection
has a thread of its own, so that heartbeats are answered while Spark computes the next rows. Unconfirmed messages are
kept: after a lost connection it reconnects and publishes them again, in their order. The broker may then have them
twice, under the same message id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from pika import BasicProperties
from pika.channel import Channel
from pika.spec import Basic

from leveret_spark.amqp.queue_connection import Link
from leveret_spark.option_errors import AmqpError
from leveret_spark.options import Broker, Writing

PIECE = 200
"""Messages that go to the thread in one call: waking it costs as much as publishing a few."""

SAMPLES = 10
CLOSE_SECONDS = 10.0


class Outgoing(NamedTuple):
    """A message to be published."""

    exchange: str
    routing_key: str
    properties: BasicProperties
    body: bytes

    def looks_like(self, other: Outgoing) -> bool:
        """True if exchange, routing key, body and message id are equal: the parts that a broker returns unchanged."""
        return self[:2] == other[:2] and self.body == other.body and self._id == other._id

    @property
    def _id(self) -> Any:
        return self.properties.message_id

    def __str__(self) -> str:
        return f"{self.properties.message_id} to {self.exchange!r} with {self.routing_key!r}"


@dataclass
class Outcome:
    """Counts of messages that were confirmed, returned as unroutable and nacked, with the first of the latter two."""

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
        """Messages that are in no queue: returned and nacked ones."""
        return self.returned + self.refused

    def __str__(self) -> str:
        total = self.confirmed + self.refused
        return f"of {total} messages {self.returned} unroutable, {self.refused} refused: {'; '.join(self.samples)}"


class Publisher:
    """Publishes over one connection. Use it with `with`; `finish` returns the counts."""

    def __init__(
        self,
        broker: Broker,
        writing: Writing,
        on_outcome: Callable[[Outgoing, bool], None] | None = None,
        on_lost: Callable[[Outgoing, str], None] | None = None,
    ) -> None:
        """`on_outcome` is called for each message, in a thread of ours: True if it was confirmed and routed, False if
        it was refused or may have been returned. Of messages that look alike, all are False when one is returned.
        `on_lost` is called for the latter with `refused` or `unroutable`.
        """
        self._broker = broker
        self._writing = writing
        self._on_outcome = on_outcome
        self._on_lost = on_lost
        self._came_back: set[int] = set()
        self._changed = threading.Condition()
        self._outcome = Outcome()
        self._channel: Channel | None = None
        self._piece: list[Outgoing] = []
        self._handed_over: list[Outgoing] = []
        self._unconfirmed: dict[int, Outgoing] = {}
        self._pending = 0
        self._next_tag = 1
        self._link = Link(broker, "publishes", self._changed, self._open_channel, self._lose_channel)

    def __enter__(self) -> Self:
        self._link.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._link.close(CLOSE_SECONDS)

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
        self._link.call(self._send)  # with no connection `_ready` sees to what waits

    def _wait(self, most: int) -> None:
        """Wait until at most `most` messages are unconfirmed. Raises AmqpError without progress."""
        with self._changed:
            seen, deadline = self._pending, time.monotonic() + self._writing.confirm_timeout_seconds
            while self._pending > most and self._link.failure is None:
                self._changed.wait(max(0.0, deadline - time.monotonic()))
                if self._pending != seen:
                    seen, deadline = self._pending, time.monotonic() + self._writing.confirm_timeout_seconds
                elif time.monotonic() >= deadline:
                    self._link.failure = AmqpError(f"{self._broker}: {self._silence()}")
            if self._link.failure is not None:
                raise self._link.failure

    def _silence(self) -> str:
        why = "it holds publishers back (connection.blocked)" if self._link.blocked else "it does not answer"
        return f"no confirm for {self._writing.confirm_timeout_seconds} s, {self._pending} messages wait: {why}"

    # --- in the thread ---

    def _open_channel(self, channel: Channel) -> None:
        channel.add_on_return_callback(self._returned)
        channel.confirm_delivery(self._confirmed, callback=lambda _: self._ready(channel))

    def _ready(self, channel: Channel) -> None:
        """Publish the messages left unconfirmed by the last connection, then new ones."""
        again = list(self._unconfirmed.values())
        self._unconfirmed.clear()
        self._came_back.clear()
        self._next_tag = 1
        self._channel = channel
        self._link.is_well()
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
        except Exception as error:  # a value that AMQP cannot encode
            what = f"message {message.properties.message_id!r} cannot be sent: {type(error).__name__}"
            self._link.fail(ValueError(f"{what}: {error}"))

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
        for tag, message in confirmed:
            self._tell(message, taken, taken and tag not in self._came_back)
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

    def _tell(self, message: Outgoing, taken: bool, routed: bool) -> None:
        if self._on_outcome is not None:
            self._on_outcome(message, routed)
        if self._on_lost is not None and not routed:
            self._on_lost(message, "unroutable" if taken else "refused")

    def _returned(self, _: Channel, method: Any, properties: Any, body: bytes) -> None:
        """Note a returned message. It comes before its confirm and without its number: any equal message may be it."""
        message = Outgoing(method.exchange, method.routing_key, properties, body)
        if self._on_outcome is not None or self._on_lost is not None:
            alike = {tag for tag, each in self._unconfirmed.items() if each.looks_like(message)}
            self._came_back |= alike or self._unconfirmed.keys()
        with self._changed:
            self._outcome.returned += 1
            self._outcome.note(f"unroutable {message} ({method.reply_text})")

    def _lose_channel(self) -> None:
        self._channel = None
