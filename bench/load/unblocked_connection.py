"""A connection that never waits: what is said leaves when the socket takes it, what comes is handed on."""

from __future__ import annotations

import selectors
from collections.abc import Callable

from bench.load import loadgen
from bench.load.measured_broker import Target
from broker.wire.method import Method
from broker.wire.methods import BasicPublish
from harness.clients.amqp_peer import Message, message_frames, method_frames

RECEIVED_AT_ONCE = 1 << 18

Heard = Callable[[Method, bytes, bytes], None]
"""Takes a method, and the content header and the body that came with it (else empty)."""


class UnblockedConnection:
    """One connection with channel 1 open, driven by a selector."""

    def __init__(self, target: Target, selector: selectors.BaseSelector) -> None:
        client = loadgen.connect(target.address)
        self._peer, self._sock = client.peer, client.socket
        self._sock.setblocking(False)
        self._selector = selector
        self._unsent = bytearray()
        self.heard: Heard = _refuse
        selector.register(self._sock, selectors.EVENT_READ, self)

    def say(self, *said: Method) -> None:
        """Send methods."""
        self._unsent += method_frames(1, *said)

    def publish(self, exchange: str, key: str, header: bytes, body: bytes) -> None:
        """Send one message."""
        self._unsent += message_frames(1, BasicPublish(exchange, key, False, False), header, body)

    def flush(self) -> None:
        """Give the socket what it takes; the rest goes the next time."""
        if self._unsent:
            try:
                sent = self._sock.send(self._unsent)
            except BlockingIOError:
                return
            del self._unsent[:sent]

    def receive(self) -> None:
        """Take in what has come. Raises ConnectionError when the broker has closed."""
        received = self._sock.recv(RECEIVED_AT_ONCE)
        if not received:
            raise ConnectionError("the broker closed the connection")
        for _, item in self._peer.decode(received):
            if isinstance(item, Message):
                self.heard(item.method, item.header, item.body)
            else:
                self.heard(item, b"", b"")

    def close(self) -> None:
        """Drop the socket."""
        self._selector.unregister(self._sock)
        self._sock.close()


def _refuse(method: Method, _header: bytes, _body: bytes) -> None:
    raise ConnectionError(f"nobody expected {method}")
