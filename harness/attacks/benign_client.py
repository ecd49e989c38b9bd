"""The client that has done nothing, and what is seen of the broker's process from outside."""

from __future__ import annotations

import secrets

from broker.wire.methods import BasicAck, BasicDeliver, ConfirmSelect, QueueDelete
from harness.attacks.raw_connection import Address
from harness.clients.amqp_peer import Message
from harness.clients.contents import PERSISTENT
from harness.clients.shorthand import consume, queue_declare
from harness.clients.wire_client import TIMEOUT_SECONDS, Client


class Good:
    """One connection with a durable queue, whose messages it publishes and consumes itself."""

    def __init__(self, address: Address, timeout: float = TIMEOUT_SECONDS) -> None:
        """Connect; `timeout` is how many seconds an answer may take."""
        self.queue = f"good-{secrets.token_hex(4)}"
        self.client = Client.connect(address, timeout=timeout)
        self.client.ask(queue_declare(self.queue, durable=True))
        self.client.ask(ConfirmSelect(False))
        self.client.ask(consume(self.queue))

    def round_trip(self) -> None:
        """Publish a persistent message; return when it is confirmed and has come, and has been acknowledged.

        Raises TimeoutError when that takes as long as no client would wait.
        """
        body = secrets.token_bytes(20)
        self.client.publish(body, key=self.queue, properties=PERSISTENT)
        confirmed = delivered = False
        while not (confirmed and delivered):
            item = self.client.receive()
            if isinstance(item, Message):
                assert isinstance(item.method, BasicDeliver)
                assert item.body == body
                delivered = True
                self.client.send(BasicAck(item.method.delivery_tag, False))
            else:
                assert isinstance(item, BasicAck)
                confirmed = True

    def close(self) -> None:
        """Delete the queue and go."""
        self.client.ask(QueueDelete(self.queue, False, False, False))
        self.client.close()
