"""A measurement: publishers and consumers of one queue, a thread and a connection each."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from broker.cli.messages.amqp_client import ANSWER_SECONDS, AmqpClient, logged_in
from broker.cli.messages.confirmed_publishes import Publisher
from broker.wire import methods
from broker.wire.field_tables import from_python
from broker.wire.properties import PERSISTENT, BasicProperties, encode_header

LOOK_SECONDS = 0.1
PREFETCH = 1000
ACKNOWLEDGED = 100
"""Deliveries acknowledged by one basic.ack."""
BURST = 100
"""Messages sent in one write."""
EXPIRY_MILLISECONDS = 60_000
"""Milliseconds without use after which the queue is deleted, even if this process was killed."""


class Load(NamedTuple):
    """Work of a run."""

    publishers: int
    consumers: int
    body_bytes: int
    window: int
    persistent: bool
    queue_type: str


class Totals(NamedTuple):
    """Results: seconds, and the numbers of messages confirmed and consumed in them."""

    seconds: float
    published: int
    consumed: int


class Figures:
    """Counts so far, of all threads."""

    def __init__(self) -> None:
        self.published = 0
        self.consumed = 0
        self.confirm_seconds = deque[float](maxlen=1_000_000)
        """Latencies of the latest confirms."""
        self.errors: list[Exception] = []
        self._lock = threading.Lock()

    def confirmed(self, waited: list[float]) -> None:
        """Count confirmed messages, given the latency of each in seconds."""
        with self._lock:
            self.published += len(waited)
            self.confirm_seconds.extend(waited)

    def acknowledged(self, messages: int) -> None:
        """Count messages that a consumer has acknowledged."""
        with self._lock:
            self.consumed += messages


@contextmanager
def temporary_queue(broker: Mapping[str, str], name: str, queue_type: str) -> Iterator[None]:
    """A durable queue that is deleted at the end."""
    arguments = from_python({"x-queue-type": queue_type, "x-expires": EXPIRY_MILLISECONDS})
    with logged_in(broker) as client:
        client.call(methods.QueueDeclare(name, False, True, False, False, False, arguments), methods.QueueDeclareOk)
        try:
            yield
        finally:
            client.call(methods.QueueDelete(name, False, False, False), methods.QueueDeleteOk)


@contextmanager
def running(broker: Mapping[str, str], queue: str, load: Load) -> Iterator[Figures]:
    """The load goes on until this is left; its figures."""
    figures, stop = Figures(), threading.Event()

    def begin(part: Callable[..., None]) -> threading.Thread:
        thread = threading.Thread(target=_guarded, args=(part, broker, queue, load, figures, stop))
        thread.start()
        return thread

    threads = [begin(_consume) for _ in range(load.consumers)] + [begin(_publish) for _ in range(load.publishers)]
    try:
        yield figures
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _guarded(
    part: Callable[..., None],
    broker: Mapping[str, str],
    queue: str,
    load: Load,
    figures: Figures,
    stop: threading.Event,
) -> None:
    """An error ends the measurement; it is raised by the thread that waits for the figures."""
    try:
        with logged_in(broker) as client:
            part(client, queue, load, figures, stop)
    except Exception as error:
        figures.errors.append(error)


def _publish(client: AmqpClient, queue: str, load: Load, figures: Figures, stop: threading.Event) -> None:
    publisher, body = Publisher(client, load.window), b"x" * load.body_bytes
    properties = BasicProperties(delivery_mode=PERSISTENT if load.persistent else None)
    method = methods.BasicPublish("", queue, True, False)
    message = client.encode(method, encode_header(len(body), properties), body)
    while not stop.is_set():
        if publisher.room:
            publisher.publish(message, min(BURST, publisher.room))
        if publisher.room < load.window // 2:
            figures.confirmed(list(publisher.confirms(ANSWER_SECONDS)))
    publisher.finish()


def _consume(client: AmqpClient, queue: str, load: Load, figures: Figures, stop: threading.Event) -> None:
    client.call(methods.BasicQos(0, PREFETCH, False), methods.BasicQosOk)
    client.call(methods.BasicConsume(queue, "", False, False, False, False, {}), methods.BasicConsumeOk)
    tag, owed = 0, 0
    while not stop.is_set():
        command = client.next(0.0 if owed else LOOK_SECONDS)
        if command is not None and isinstance(command.method, methods.BasicDeliver):
            tag, owed = command.method.delivery_tag, owed + 1
        if owed == ACKNOWLEDGED or (owed and command is None):
            client.send(methods.BasicAck(tag, True))
            figures.acknowledged(owed)
            owed = 0


def percentile(values: list[float], share: float) -> float:
    """The value that this share of the sorted values does not exceed; 0 of none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def watch(figures: Figures, seconds: float, each_second: Callable[[int, int, int], None]) -> Totals:
    """Wait `seconds`, or until ^C. Call back each second: its number, messages published, messages consumed.

    Raises what a thread has failed with.
    """
    began, before, number = time.monotonic(), (0, 0), 0
    try:
        while (passed := time.monotonic() - began) < seconds and not figures.errors:
            time.sleep(min(LOOK_SECONDS, seconds - passed))
            if time.monotonic() - began >= number + 1:
                number += 1
                now = figures.published, figures.consumed
                each_second(number, now[0] - before[0], now[1] - before[1])
                before = now
    except KeyboardInterrupt:
        pass
    if figures.errors:
        raise figures.errors[0]
    return Totals(time.monotonic() - began, figures.published, figures.consumed)
