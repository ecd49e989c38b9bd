"""One connection of somebody who keeps to the protocol only as far as it serves him."""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from collections.abc import Sequence

from broker.wire.constants import FRAME_METHOD
from broker.wire.field_tables import Table, from_python
from broker.wire.frames import PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    DECODERS,
    BasicAck,
    BasicPublish,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStartOk,
    ConnectionTuneOk,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.frame_cutter import FrameReader

Address = tuple[str, int]

PATIENCE_SECONDS = 0.1
"""How long one blow goes on pushing at a socket that takes nothing."""
ANSWER_SECONDS = 10.0
FRAME_MAX = 131072
CHANNEL_MAX = 2047

START_OK = method_frame(
    0,
    ConnectionStartOk(
        from_python({"capabilities": {"consumer_cancel_notify": True, "basic.nack": True}}),
        "PLAIN",
        b"\0guest\0guest",
        "en_US",
    ),
)
OPEN = method_frame(0, ConnectionOpen("/"))


def tune_ok(heartbeat: int = 0) -> bytes:
    """The answer to connection.tune, with the highest limits there are."""
    return method_frame(0, ConnectionTuneOk(CHANNEL_MAX, FRAME_MAX, heartbeat))


def publication(key: str, body: bytes, *, exchange: str = "", mandatory: bool = False, **properties: object) -> bytes:
    """The frames of a publish on channel 1; `headers` is a table or a plain dictionary."""
    headers = properties.pop("headers", None)
    if headers is not None:
        properties["headers"] = headers if _is_table(headers) else from_python(headers)  # type: ignore[arg-type]
    header = encode_header(len(body), BasicProperties(**properties))  # type: ignore[arg-type]
    method = BasicPublish(exchange, key, mandatory, False)
    return method_frame(1, method) + content_frames(1, header, body, FRAME_MAX)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(field, tuple) for field in value.values())


class Line:
    """A socket, through the handshake unless told otherwise. What is not taken at once waits for the next `press`."""

    def __init__(
        self, address: Address, *, channels: int = 1, heartbeat: int = 0, greet: bool = True, window: int = 0
    ) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if window:  # how much the kernel takes in for somebody who does not read
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.sock.settimeout(ANSWER_SECONDS)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.connect(address)
        self._reader = FrameReader()
        self._came: Counter[int] = Counter()
        self.confirmed = 0
        """The highest publish that the broker has confirmed so far."""
        self._unsent = memoryview(b"")
        if greet:
            self._greet(heartbeat, channels)

    def _greet(self, heartbeat: int, channels: int) -> None:
        opens = b"".join(method_frame(number, ChannelOpen()) for number in range(1, channels + 1))
        self.tell(PROTOCOL_HEADER + START_OK + tune_ok(heartbeat) + OPEN + opens)
        self.await_methods(ConnectionOpenOk, 1)
        if channels:
            self.await_methods(ChannelOpenOk, channels)

    def tell(self, data: bytes) -> None:
        """Send all of it, and wait until it is taken."""
        self.sock.settimeout(ANSWER_SECONDS)
        self.sock.sendall(data)

    def ask(self, answer: type[Method], *methods: Method) -> None:
        """Send methods on channel 1 and wait for as many answers of a kind."""
        for start in range(0, len(methods), 200):
            part = methods[start : start + 200]
            self.tell(b"".join(method_frame(1, method) for method in part))
            self.await_methods(answer, len(part))

    def await_methods(self, wanted: type[Method], count: int) -> None:
        """Read until so many of these have come. Raises ConnectionError when the broker closes anything."""
        self.sock.settimeout(ANSWER_SECONDS)
        while self._came[wanted.KEY] < count:
            self._take()
        self._came[wanted.KEY] -= count

    def _take(self) -> None:
        data = self.sock.recv(1 << 18)
        if not data:
            raise ConnectionError("the broker closed the socket")
        for frame in self._reader.feed(data):
            if frame.kind == FRAME_METHOD:
                key = int.from_bytes(frame.payload[:4], "big")
                if key in (ConnectionClose.KEY, ChannelClose.KEY):
                    raise ConnectionError(str(DECODERS[key](frame.payload)))
                self._came[key] += 1
                if key == BasicAck.KEY:
                    self.confirmed = DECODERS[key](frame.payload).delivery_tag  # type: ignore[attr-defined]

    def press(self, data: bytes) -> bool:
        """Send as much as is taken within PATIENCE_SECONDS, what was left over first; whether all has gone."""
        self.sock.setblocking(False)
        deadline = time.monotonic() + PATIENCE_SECONDS
        self._unsent = self._unsent or memoryview(data)
        while self._unsent and (left := deadline - time.monotonic()) > 0:
            if select.select((), (self.sock,), (), left)[1]:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
        return not self._unsent

    def hear(self) -> int:
        """Throw away what has come; how many bytes. Raises ConnectionError at the end of the connection."""
        self.sock.setblocking(False)
        heard = 0
        try:
            while data := self.sock.recv(1 << 18):
                heard += len(data)
        except BlockingIOError:
            return heard
        raise ConnectionError("the broker closed the socket")

    def close(self) -> None:
        """Drop the socket without a word."""
        self.sock.close()


def frames_of(channel: int, methods: Sequence[Method]) -> bytes:
    """Methods on a channel, as they go on the wire."""
    return b"".join(method_frame(channel, method) for method in methods)


NOTHING: Table = {}
