"""Numbered messages for a stream and a queue of one broker, and the verdict on what has come of them."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence, Set
from contextlib import suppress
from typing import NamedTuple, Self

import pika
from pika.exceptions import AMQPError

TYPES = {"stream": "stream", "queue": "classic"}
"""Types of the queues by what ends their names."""
PUBLISH_SECONDS = 0.05


class Row(NamedTuple):
    """A message in the files of a broker."""

    broker: str
    kind: str
    offset: int | None
    number: int

    @classmethod
    def read(cls, line: bytes) -> Self:
        """Read a line of the job, in which the body is text."""
        broker, kind, offset, body = json.loads(line)
        return cls(broker, kind, offset, int(body))


class Publisher(threading.Thread):
    """Publishes a number and those after it, one confirm at a time; what was not confirmed is published again."""

    def __init__(self, address: tuple[str, int], name: str, first: int) -> None:
        super().__init__(name=f"publisher to {address}", daemon=True)
        self._name = name
        self.confirmed = first
        """The number after the last one that was confirmed."""
        self._address = address
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            with suppress(AMQPError, OSError):
                self._publish()
            self._over.wait(0.1)

    def stop(self) -> None:
        """Return when nothing is published any more."""
        self._over.set()
        if self.ident is not None:
            self.join()

    def _publish(self) -> None:
        with pika.BlockingConnection(pika.ConnectionParameters(*self._address)) as connection:
            channel = connection.channel()
            for kind, queue_type in TYPES.items():
                channel.queue_declare(f"{self._name}-{kind}", durable=True, arguments={"x-queue-type": queue_type})
            channel.confirm_delivery()
            while not self._over.wait(PUBLISH_SECONDS):
                for kind in TYPES:
                    persistent = pika.BasicProperties(delivery_mode=2)
                    channel.basic_publish("", f"{self._name}-{kind}", b"%d" % self.confirmed, persistent)
                self.confirmed += 1


def verdict(rows: Sequence[Row], confirmed: Set[int]) -> str:
    """Judge what is in a broker's files. Raises AssertionError when a message is missing, or an offset there twice."""
    offsets = Counter(row.offset for row in rows if row.kind == "stream")
    again = [offset for offset, times in offsets.items() if times > 1]
    assert not again, f"offsets that are in the files twice: {again[:10]}"
    for kind in TYPES:
        missing = confirmed - {row.number for row in rows if row.kind == kind}
        assert not missing, f"confirmed and not in the files of the {kind}: {sorted(missing)[:10]}"
    of_queue = Counter(row.number for row in rows if row.kind == "queue")
    once = f"{len(offsets):,} offsets of the stream, each once"
    return f"{once}, and {len(of_queue):,} messages of the queue, {of_queue.total() - len(of_queue):,} of them again"
