"""A client that may say several things in one breath, so that the broker receives them together."""

from __future__ import annotations

import random
from typing import Any

from broker.wire.method import Method
from broker.wire.methods import BasicPublish
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import message_frames, method_frames
from harness.clients.wire_client import Client


class Speaker:
    """Says things to a broker at once, or keeps them until the next breath, as chance has it."""

    def __init__(self, client: Client, choose: random.Random) -> None:
        self._client = client
        self._choose = choose
        self._kept: list[bytes] = []

    def say(self, *methods: Method) -> None:
        """Say methods."""
        self._say(method_frames(1, *methods))

    def publish(self, exchange: str, key: str, properties: BasicProperties, body: bytes) -> None:
        """Publish a message."""
        header = encode_header(len(body), properties)
        self._say(message_frames(1, BasicPublish(exchange, key, False, False), header, body))

    def _say(self, frames: bytes) -> None:
        self._kept.append(frames)
        if self._choose.random() < 0.3:
            self.breathe()

    def breathe(self) -> None:
        """Send what was kept."""
        kept, self._kept = self._kept, []
        if kept:
            self._client.send_raw(b"".join(kept))

    def hear(self) -> Any:
        """Send what was kept, and wait for the next thing that is said."""
        self.breathe()
        return self._client.receive()
