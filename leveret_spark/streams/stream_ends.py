"""First offsets and ends of streams, found over AMQP alone.

AMQP 0-9-1 has no request for it, and RabbitMQ's message count is seconds behind. But a consumer shows it: it gets the
messages from `x-stream-offset` on, as far as its prefetch allows, before the broker answers the next request on
its channel. A consumer at `last` gets the last message (Leveret), or the last chunk (RabbitMQ, up to some thousand
messages that were published together): the highest offset of these is the end of the stream. At `first`, or a time,
the lowest one is the beginning. For one credit RabbitMQ 3.10 gives a whole chunk, and RabbitMQ 4 one message: so a
look at the end has credit for a whole chunk.

One connection is kept for all streams of a query. A consumer with a prefetch of 1 waits at the end of each stream:
while it gets nothing, that end is the same, and one request tells so for all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from pika.exceptions import ChannelClosedByBroker

from leveret_spark.amqp.client_connection import is_hopeless
from leveret_spark.amqp.queue_connection import RETRY_SECONDS
from leveret_spark.amqp.stream_looks import ANSWER_SECONDS, LookConnection, Tail, Where, at, look_connection, looks_at
from leveret_spark.amqp.unacked_consumer import LOST, UnackedConsumer, failure
from leveret_spark.options import PREFETCH_MAX, Broker

PULSE_SECONDS = 5.0
"""Interval at which heartbeats are answered while nobody looks."""

SAMPLE = 100
"""Messages of a stream from which their size is estimated."""

NOT_FOUND, ACCESS_REFUSED = 404, 403

Result = TypeVar("Result")


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
    """True if a queue is a stream: no other type accepts a consumer with an offset.

    Raises AmqpError without a broker, and for a queue that is missing or must not be read.
    """

    def ask() -> bool:
        try:
            with UnackedConsumer(broker, queue, "looks at", prefetch=1, arguments=at("next")):
                return True
        except ChannelClosedByBroker as error:
            if error.reply_code in (NOT_FOUND, ACCESS_REFUSED):
                raise
            return False

    return patiently(broker, queue, ask)


class StreamEnds:
    """Begins and ends of streams at one broker, over one connection that is kept; `close` ends it.

    Its methods raise AmqpError.
    """

    def __init__(self, broker: Broker) -> None:
        self.losses = 0
        """Number of times that a connection or a stream has gone away: what was known of streams is to be checked."""
        self._broker = broker
        self._link: LookConnection | None = None
        self._tails: dict[str, Tail] = {}
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[type[StreamEnds], tuple[Broker]]:
        """Another process has its own connection."""
        return StreamEnds, (self._broker,)

    def __enter__(self) -> StreamEnds:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_dense(self) -> bool:
        """True if the broker gives each offset to a message: Leveret does, RabbitMQ has records of its own."""
        return self._asked([], lambda link: link.platform.startswith("Leveret"))

    def first(self, queue: str) -> int:
        """The offset of the oldest message; 0 for an empty stream."""
        return self.beginning({queue: ["first"]}, certain=True)[queue][0] or 0

    def since(self, moments: Mapping[str, datetime]) -> dict[str, int | None]:
        """The first offset of each stream at a time or later, up to a chunk too early; None where there is none."""
        found = self.beginning({queue: [moment] for queue, moment in moments.items()})
        return {queue: offset for queue, (offset,) in found.items()}

    def beginning(self, places: Mapping[str, list[Where]], *, certain: bool = False) -> dict[str, list[int | None]]:
        """The first offset of each stream from some places in it on; None where there is none."""
        if not places:
            return {}
        found = self._asked(places, lambda link: looks_at(link, places, certain=certain))
        return {queue: [min(offsets, default=None) for offsets in look.offsets] for queue, look in found.items()}

    def sizes(self, places: Mapping[str, int]) -> dict[str, float]:
        """The mean size of the bodies that follow an offset of each stream, of some hundred messages at most."""
        if not places:
            return {}
        wanted: dict[str, list[Where]] = {queue: [offset] for queue, offset in places.items()}
        found = self._asked(places, lambda link: looks_at(link, wanted, prefetch=SAMPLE))
        return {queue: sum(look.sizes) / max(1, len(look.sizes)) for queue, look in found.items()}

    def ends(self, queues: Iterable[str]) -> dict[str, int]:
        """The offset after the newest message of each stream; 0 for an empty one."""
        wanted = list(queues)
        return self._asked(wanted, lambda link: self._looked(link, wanted))

    def ends_within(self, queues: Iterable[str], seconds: float) -> dict[str, int]:
        """Return the ends; waits up to `seconds` for a message if none has come since the last call."""
        wanted = list(queues)
        return self._asked(wanted, lambda link: self._after_a_wait(link, wanted, seconds))

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            self._disconnect()

    def _asked(self, queues: Iterable[str], question: Callable[[LookConnection], Result]) -> Result:
        """Ask over the connection, which is made where there is none; after a loss on a new one."""

        def attempt() -> Result:
            with self._lock:
                try:
                    return question(self._connected())
                except LOST:
                    self._disconnect()
                    self.losses += 1
                    raise

        return patiently(self._broker, ", ".join(queues), attempt)

    def _connected(self) -> LookConnection:
        if self._link is None:
            self._link = look_connection(self._broker, "follows streams")
            threading.Thread(target=self._pulse, args=(self._link,), name="heartbeats of streams", daemon=True).start()
        return self._link

    def _disconnect(self) -> None:
        link = self._link
        self._link = None
        self._tails.clear()
        if link is not None:
            link.close()

    def _pulse(self, link: LookConnection) -> None:
        """Answer heartbeats while a batch is written, which may take longer than the broker waits for one."""
        heartbeat = self._broker.heartbeat_seconds
        pause = min(PULSE_SECONDS, heartbeat / 3) if heartbeat else PULSE_SECONDS
        while True:
            time.sleep(pause)
            with self._lock, suppress(*LOST):
                if self._link is not link:
                    return
                link.receive()

    def _after_a_wait(self, link: LookConnection, queues: list[str], seconds: float) -> dict[str, int]:
        deadline = time.monotonic() + seconds
        tails = self._tails.values()
        for tail in tails:
            tail.ask()
        link.run(lambda: not any(tail.waits and not tail.ended for tail in tails), ANSWER_SECONDS)
        if self._tails.keys() >= set(queues):
            link.run(self._changed, deadline - time.monotonic())
        self._looked(link, [queue for queue in queues if not self._is_idle(queue)])
        return {queue: self._tails[queue].end for queue in queues}

    def _changed(self) -> bool:
        return any(tail.moved or tail.ended for tail in self._tails.values())

    def _is_idle(self, queue: str) -> bool:
        tail = self._tails.get(queue)
        return tail is not None and not (tail.moved or tail.ended)

    def _looked(self, link: LookConnection, queues: list[str]) -> dict[str, int]:
        """Find the ends of streams again, and wait there for the next message."""
        found = looks_at(link, {queue: ["last"] for queue in queues}, prefetch=PREFETCH_MAX)
        ends = {queue: max(look.offsets[0], default=-1) + 1 for queue, look in found.items()}
        for queue, end in ends.items():
            if self._is_idle(queue) and self._tails[queue].end == end:
                continue
            if (former := self._tails.pop(queue, None)) is not None:
                self.losses += former.ended
                former.close()
            self._tails[queue] = Tail(link, queue, end)
        return ends
