"""A client that may send several things in one write, so that the broker receives them together."""

from __future__ import annotations

import random
from typing import Any

from broker.wire.method import Method
from broker.wire.methods import BasicPublish
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import message_frames, method_frames
from harness.clients.wire_client import Client

WRITE_CHANCE = 0.3


class PipeliningClient:
    """Sends things to a broker at once, or buffers them until the next write, as chance has it."""

    def __init__(self, client: Client, choose: random.Random) -> None:
        self._client = client
        self._choose = choose
        self._buffered: list[bytes] = []

    def send(self, *methods: Method) -> None:
        """Send methods."""
        self._send(method_frames(1, *methods))

    def publish(self, exchange: str, key: str, properties: BasicProperties, body: bytes) -> None:
        """Publish a message."""
        header = encode_header(len(body), properties)
        self._send(message_frames(1, BasicPublish(exchange, key, False, False), header, body))

    def _send(self, frames: bytes) -> None:
        self._buffered.append(frames)
        if self._choose.random() < WRITE_CHANCE:
            self.flush()

    def flush(self) -> None:
        """Write what was buffered."""
        buffered, self._buffered = self._buffered, []
        if buffered:
            self._client.send_raw(b"".join(buffered))

    def receive(self) -> Any:
        """Write what was buffered, and wait for the next thing that comes."""
        self.flush()
        return self._client.receive()
