"""One connection of somebody who keeps to the protocol only as far as it serves him.

Of `AmqpPeer` it uses the lower half: a login that waits for no answer, and frames, of which most are only counted.
"""

from __future__ import annotations

import select
import socket
import time
from collections import Counter

from broker.wire.constants import FRAME_METHOD
from broker.wire.field_tables import Table
from broker.wire.frames import method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    DECODERS,
    BasicAck,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpenOk,
)
from harness.clients.amqp_peer import FrameReader, Login, method_frames

Address = tuple[str, int]

PATIENCE_SECONDS = 0.1
"""Seconds of one round of pushing at a socket that takes nothing."""
ANSWER_SECONDS = 30.0

NOTHING: Table = {}
CAPABILITIES = {"consumer_cancel_notify": True, "basic.nack": True}


class RawConnection:
    """A socket, through the handshake unless told otherwise. Bytes not taken at once wait for the next `press`."""

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
        login = Login(capabilities=CAPABILITIES, heartbeat=heartbeat)
        opens = (method_frame(number, ChannelOpen()) for number in range(1, channels + 1))
        self.tell(b"".join((*login.at_once(), *opens)))
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
            self.tell(method_frames(1, *part))
            self.await_methods(answer, len(part))

    def await_methods(self, wanted: type[Method], count: int) -> None:
        """Read until `count` of these have come. Raises ConnectionError when the broker closes anything."""
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
