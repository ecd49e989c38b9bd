"""Consumers of streams that only look: what the broker gives each of them at once, many at the same time.

pika's connection for callers that wait asks one thing after the other, and rejects what comes while it cancels a
consumer, which streams refuse. So these questions have an asynchronous connection, driven by whoever waits, and a
channel for each look, which is closed after it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from pika.adapters.select_connection import IOLoop
from pika.channel import Channel
from pika.exceptions import AMQPError

from leveret_spark.amqp.client_connection import parameters
from leveret_spark.amqp.float_headers import Connection
from leveret_spark.amqp.received_message import message_of, stream_offset
from leveret_spark.options import Broker

ARRIVAL_SECONDS = 10.0
"""Time that a counted message may take to arrive: Leveret delivers it once it is synced."""

ANSWER_SECONDS = 60.0
"""Time for an answer of the broker."""

AT_ONCE = 200
"""Channels that are open for looks at one time: brokers limit them."""

Where = str | int | datetime


def at(where: Where) -> dict[str, Where]:
    """The arguments of a consumer that begins at `first`, `last`, an offset, or a time."""
    return {"x-stream-offset": where}


class LookConnection:
    """An asynchronous connection, driven by the one thread that waits in `run`. Raises what pika raises."""

    def __init__(self, broker: Broker, purpose: str, attempt: int = 0) -> None:
        """Each attempt is at the next of the broker's addresses."""
        self._lost: BaseException | None = None
        self._loop = IOLoop()
        self._loop.activate_poller()
        self._connection = Connection(
            parameters(broker, purpose, attempt),
            on_open_error_callback=self._ended,
            on_close_callback=self._ended,
            custom_ioloop=self._loop,
        )
        try:
            if not self.run(lambda: bool(self._connection.is_open), ANSWER_SECONDS):
                raise TimeoutError("the broker does not answer")
        except BaseException:
            self.close()
            raise

    @property
    def platform(self) -> str:
        """The platform of the broker, by its own words: `Leveret 0.1.0, Python 3.11`, or Erlang."""
        return str((self._connection.server_properties or {}).get("platform", ""))

    def open_channel(self, opened: Callable[[Channel], None]) -> None:
        """Open a channel; `opened` is called with it."""
        self._connection.channel(on_open_callback=opened)

    def run(self, until: Callable[[], bool], seconds: float) -> bool:
        """Receive until a condition is true, or for some time; returns the condition. Raises what has ended it."""
        over = time.monotonic() + seconds
        timer = self._loop.call_later(max(0.0, seconds), _nothing)
        try:
            while not until():
                if self._lost is not None:
                    raise self._lost
                if time.monotonic() >= over:
                    return False
                self._loop.poll()
                self._loop.process_timeouts()
            return True
        finally:
            self._loop.remove_timeout(timer)

    def receive(self) -> None:
        """Receive what is there, and answer heartbeats. Raises what has ended it."""
        self._loop.call_later(0, _nothing)
        self._loop.poll()
        self._loop.process_timeouts()
        if self._lost is not None:
            raise self._lost

    def close(self) -> None:
        """Disconnect."""
        with suppress(AMQPError, OSError):
            if self._connection.is_open:
                self._connection.close()
                self.run(lambda: self._lost is not None, ANSWER_SECONDS)
        self._loop.deactivate_poller()
        self._loop.close()

    def _ended(self, _: Any, reason: BaseException | str) -> None:
        self._lost = reason if isinstance(reason, BaseException) else AMQPError(reason)


def look_connection(broker: Broker, purpose: str) -> LookConnection:
    """Connect to the first of a broker's addresses that answers. Raises what pika raises for the last."""
    for attempt in range(len(broker.endpoints) - 1):
        with suppress(AMQPError, OSError):
            return LookConnection(broker, purpose, attempt)
    return LookConnection(broker, purpose, len(broker.endpoints) - 1)


class Look:
    """Consumers of one stream on a channel of their own; `offsets` has what each was given.

    Unless it is `certain` that each is given something, one at the last message comes behind them, which is. Where that
    has arrived, a consumer that was given nothing has nothing: RabbitMQ may deliver behind the answer to what it was
    asked later.
    """

    def __init__(
        self, link: LookConnection, queue: str, places: Iterable[Where], *, prefetch: int = 1, certain: bool = True
    ) -> None:
        self.answered = False
        self.messages = 0
        """The number of messages, as the broker counts them."""
        self.failure: BaseException | None = None
        self._queue = queue
        self._places = list(places)
        self._prefetch = prefetch
        self.offsets: list[list[int]] = [[] for _ in self._places]
        self.sizes: list[int] = []
        """Bytes of the bodies."""
        self._certain = certain
        self._last_arrived = False
        self._channel: Channel | None = None
        link.open_channel(self._opened)

    @property
    def over(self) -> bool:
        """True when the broker has answered."""
        return self.answered or self.failure is not None

    @property
    def has_all(self) -> bool:
        """True when all is there that the broker gives at once, or the stream is empty."""
        return not self.messages or (all(self.offsets) if self._certain else self._last_arrived)

    def close(self) -> None:
        """Close the channel."""
        _close(self._channel)

    def _opened(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._closed)
        channel.basic_qos(prefetch_count=self._prefetch, callback=_nothing)
        for place, offsets in zip(self._places, self.offsets, strict=True):
            channel.basic_consume(self._queue, partial(self._note, offsets), arguments=at(place), callback=_nothing)
        if not self._certain:
            channel.basic_consume(self._queue, self._arrived, arguments=at("last"), callback=_nothing)
        channel.queue_declare(self._queue, passive=True, callback=self._counted)

    def _note(self, offsets: list[int], _: Channel, method: Any, properties: Any, body: bytes) -> None:
        offset = stream_offset(message_of(method, properties, body))
        if offset is not None:
            offsets.append(offset)
            self.sizes.append(len(body))

    def _arrived(self, *_: object) -> None:
        self._last_arrived = True

    def _counted(self, answer: Any) -> None:
        self.messages = int(answer.method.message_count)
        self.answered = True

    def _closed(self, _: Channel, reason: BaseException) -> None:
        if not self.over:
            self.failure = reason


class Tail:
    """A consumer that waits at an offset of a stream, the end, and tells when a message is there."""

    def __init__(self, link: LookConnection, queue: str, end: int) -> None:
        self.end = end
        self.moved = False
        self.ended = False
        """The stream was deleted, or its leader has moved."""
        self.waits = True
        """It awaits an answer of the broker, at first that it consumes."""
        self._queue = queue
        self._channel: Channel | None = None
        link.open_channel(self._opened)

    def ask(self) -> None:
        """Have `waits` false until all is there that the broker has given until now."""
        if self._channel is not None and self._channel.is_open and not self.waits:
            self.waits = True
            self._channel.basic_qos(prefetch_count=1, callback=self._answered)

    def close(self) -> None:
        """Close the channel."""
        _close(self._channel)

    def _opened(self, channel: Channel) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._over)
        channel.add_on_cancel_callback(self._over)
        channel.basic_qos(prefetch_count=1, callback=_nothing)
        channel.basic_consume(self._queue, self._arrived, arguments=at(self.end), callback=self._answered)

    def _answered(self, *_: object) -> None:
        self.waits = False

    def _arrived(self, *_: object) -> None:
        self.moved = True

    def _over(self, *_: object) -> None:
        self.ended = True


def looks_at(
    link: LookConnection, places: Mapping[str, list[Where]], *, prefetch: int = 1, certain: bool = True
) -> dict[str, Look]:
    """Return what new consumers of each stream are given at once, each from a place in it on.

    `certain`: there is something, unless the stream is empty.
    """
    found: dict[str, Look] = {}
    queues = list(places)
    for some in (queues[begin : begin + AT_ONCE] for begin in range(0, len(queues), AT_ONCE)):
        looks = {queue: Look(link, queue, places[queue], prefetch=prefetch, certain=certain) for queue in some}
        if not link.run(partial(_over, looks.values()), ANSWER_SECONDS):
            raise TimeoutError("the broker does not answer")
        if failed := next((look.failure for look in looks.values() if look.failure is not None), None):
            raise failed
        link.run(partial(_have_all, looks.values()), ARRIVAL_SECONDS)
        for look in looks.values():
            look.close()
        found |= looks
    return found


def _over(looks: Iterable[Look]) -> bool:
    return all(look.over for look in looks)


def _have_all(looks: Iterable[Look]) -> bool:
    return all(look.has_all for look in looks)


def _close(channel: Channel | None) -> None:
    if channel is not None and channel.is_open:
        channel.close()


def _nothing(*_: object) -> None:
    """Do nothing: the answer is awaited by what is asked behind it."""
