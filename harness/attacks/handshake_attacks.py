"""Attacks on the way in: who never gets on, who is not there any more, who comes and goes."""

from __future__ import annotations

import socket
import struct

from broker.wire.frames import method_frame
from broker.wire.methods import BasicConsume, ConnectionClose, QueueDeclare, QueueDeclareOk
from harness.attacks.attack import Attack
from harness.attacks.raw_connection import NOTHING, RawConnection
from harness.clients.amqp_peer import Login, publish_frames

HEADER, START_OK, TUNE_OK, OPEN = Login().at_once()
LORIS_CONNECTIONS = 500
CONNECTIONS = 10_000
CHUNK = 50


class SlowLoris(Attack):
    """Many connections that say `said` at once and of `dragged` a byte now and then, for ever."""

    said = b""
    dragged = HEADER

    def begin(self) -> None:
        self._at = 0
        self._spoken: dict[RawConnection, int] = {}
        self._more()

    def _more(self) -> None:
        for _ in range(min(CHUNK, self.scaled(LORIS_CONNECTIONS) - len(self.connections))):
            connection = self.open(greet=False)
            connection.tell(self.said)
            self._spoken[connection] = 0

    def round(self) -> None:
        self._more()
        for connection in self.connections[self._at : self._at + CHUNK]:
            place = self._spoken[connection]
            try:
                if place < len(self.dragged) - 1:
                    connection.tell(self.dragged[place : place + 1])
                    self._spoken[connection] += 1
                connection.hear()
            except OSError:
                connection.close()
                self.connections.remove(connection)
        self._at = (self._at + CHUNK) % max(1, len(self.connections))


class SlowStartOk(SlowLoris):
    said, dragged = HEADER, START_OK


class SlowTuneOk(SlowLoris):
    said, dragged = HEADER + START_OK, TUNE_OK


class SlowOpen(SlowLoris):
    said, dragged = HEADER + START_OK + TUNE_OK, OPEN


class SlowFrame(SlowLoris):
    """Through the handshake, then a frame of the largest size, a byte at a time."""

    said = HEADER + START_OK + TUNE_OK + OPEN
    dragged = b"\x01\x00\x01" + struct.pack(">I", 131064) + bytes(131065)


class LargeFramesBeforeLogin(SlowLoris):
    """A client without a login that sends the largest frame that is taken, but for its end."""

    said = HEADER + b"\x01\x00\x00" + struct.pack(">I", 131064) + bytes(131063)
    dragged = bytes(2)


class HalfOpen(Attack):
    """Peers that vanish without a word: they have consumers, heartbeats of a second, and never move again."""

    def begin(self) -> None:
        for _ in range(self.scaled(200)):
            connection = self.open(heartbeat=1, window=4096)
            connection.ask(
                QueueDeclareOk, QueueDeclare("hostile.half-open", False, False, False, False, False, NOTHING)
            )
            connection.tell(method_frame(1, BasicConsume("hostile.half-open", "", False, False, False, True, NOTHING)))
        self.connection.tell(publish_frames(bytes(1000), key="hostile.half-open") * 100)


class WrongPassword(Attack):
    """Wrong passwords: each is answered by silence, for which the broker keeps the socket."""

    def round(self) -> None:
        connection = self.open(greet=False)
        guess = method_frame(0, Login(password="guess", capabilities={}).start_ok())
        connection.tell(HEADER + guess)
        if len(self.connections) > self.scaled(500):
            self.connections.pop(0).close()


class HandshakingConnections(Attack):
    """Clients of another protocol: a browser, TLS, noise."""

    def round(self) -> None:
        for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(200), bytes(range(256)) * 4):
            connection = RawConnection(self.address, greet=False)
            connection.tell(greeting)
            connection.close()


class Churn(Attack):
    """Connect, shake hands, and drop the socket; every other one says goodbye, every fourth sends an RST."""

    def round(self) -> None:
        for number in range(10):
            connection = RawConnection(self.address)
            if number % 2:
                connection.tell(method_frame(0, ConnectionClose(200, "", 0, 0)))
            elif number % 4:
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


class SilentChurn(Attack):
    """Connect and drop, without a byte."""

    def round(self) -> None:
        for _ in range(50):
            RawConnection(self.address, greet=False).close()


class ManyConnections(Attack):
    """Ten thousand connections, kept."""

    def round(self) -> None:
        for _ in range(min(CHUNK, self.scaled(CONNECTIONS) - len(self.connections))):
            self.open()
