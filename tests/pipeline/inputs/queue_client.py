"""A client of the broker beside what is tested."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pika
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel

from harness.clients.wire_client import Address
from harness.waiting import eventually
from leveret_spark.amqp.float_headers import Properties, blocking

ON_DISK = "confirmed when all before it is on disk"


class Desk(NamedTuple):
    """A client of the broker beside Spark: makes queues and looks into them."""

    address: Address
    channel: BlockingChannel

    @property
    def options(self) -> dict[str, str]:
        """The data source's options for this broker."""
        return {"host": self.address[0], "port": str(self.address[1])}

    def publish(self, queue: str, bodies: list[bytes], **properties: Any) -> None:
        """Publish into a queue, numbered by message id, and return when all are there."""
        there = self.count(queue)
        for number, body in enumerate(bodies):
            told = Properties(**{"delivery_mode": 2, "message_id": str(number), **properties})
            self.channel.basic_publish("", queue, body, told)
        eventually(lambda: self.count(queue) >= there + len(bodies), "everything to be in the queue")

    def count(self, queue: str) -> int:
        """Return the number of messages that are ready."""
        return int(self.channel.queue_declare(queue, passive=True).method.message_count)

    def take(self, queue: str) -> list[tuple[Any, BasicProperties, bytes]]:
        """Everything that is in a queue, which is then empty."""
        found = []
        while (message := self.channel.basic_get(queue, auto_ack=True))[0] is not None:
            found.append(message)
        return found

    def await_disk(self) -> None:
        """Return when what the broker was told before is on its disk, acknowledgements and deliveries too.

        A confirm says so of everything before it. From here on all publishes of this desk await theirs.
        """
        self.channel.confirm_delivery()
        self.channel.queue_declare(ON_DISK, durable=True)
        self.channel.basic_publish("", ON_DISK, b"", BasicProperties(delivery_mode=2))
        self.channel.queue_delete(ON_DISK)

    def consumers(self, queue: str) -> int:
        """Return the number of consumers of a queue."""
        return int(self.channel.queue_declare(queue, passive=True).method.consumer_count)


class WebDesk(NamedTuple):
    """A desk at a broker, and the URL of its management API."""

    desk: Desk
    url: str


@contextmanager
def desk_at(address: Address) -> Iterator[Desk]:
    """A desk of its own at any broker, which must not go away meanwhile."""
    connection = blocking(pika.ConnectionParameters(*address, heartbeat=0))
    try:
        yield Desk(address, connection.channel())
    finally:
        if connection.is_open:
            connection.close()
