"""A connection that never waits: what is said leaves when the socket takes it, what comes is handed on."""

from __future__ import annotations

import selectors
from collections.abc import Callable

from bench.load import loadgen
from bench.load.measured_broker import Target
from broker.wire import frames, methods
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from broker.wire.method import Method
from broker.wire.properties import body_size

START = frames.FRAME_START
RECEIVED_AT_ONCE = 1 << 18

Heard = Callable[[Method, bytes, bytes], None]
"""Takes a method, and the content header and the body that came with it (else empty)."""


class Line:
    """One connection with channel 1 open, driven by a selector."""

    def __init__(self, target: Target, selector: selectors.BaseSelector) -> None:
        self._sock = loadgen.connect(target.address, "").sock
        self._sock.setblocking(False)
        self._selector = selector
        self._unsent = bytearray()
        self._rest = b""
        self._method: Method | None = None
        self._header = b""
        self._parts: list[bytes] = []
        self.heard: Heard = _refuse
        selector.register(self._sock, selectors.EVENT_READ, self)

    def say(self, *said: Method) -> None:
        """Send methods."""
        for method in said:
            self._unsent += frames.method_frame(1, method)

    def publish(self, exchange: str, key: str, header: bytes, body: bytes) -> None:
        """Send one message."""
        self._unsent += frames.method_frame(1, methods.BasicPublish(exchange, key, False, False))
        self._unsent += frames.content_frames(1, header, body, loadgen.FRAME_MAX)

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
        data, at = self._rest + received, 0
        while len(data) - at >= START.size:
            kind, _channel, size = START.unpack_from(data, at)
            start = at + START.size
            if start + size >= len(data):
                break
            self._take(kind, data[start : start + size])
            at = start + size + 1
        self._rest = data[at:]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == FRAME_METHOD:
            method = methods.DECODERS[int.from_bytes(payload[:4], "big")](payload)
            if method.HAS_CONTENT:
                self._method, self._header, self._parts = method, b"", []
            else:
                self.heard(method, b"", b"")
            return
        if kind == FRAME_HEADER:
            self._header = payload
        elif kind == FRAME_BODY:
            self._parts.append(payload)
        if self._method is not None and sum(map(len, self._parts)) == body_size(self._header):
            method, self._method = self._method, None
            self.heard(method, self._header, b"".join(self._parts))

    def close(self) -> None:
        """Drop the socket."""
        self._selector.unregister(self._sock)
        self._sock.close()


def _refuse(method: Method, _header: bytes, _body: bytes) -> None:
    raise ConnectionError(f"nobody expected {method}")
