"""A client's socket with TLS.

Between the socket and the connection are OpenSSL and its two buffers in memory: received bytes are decrypted through
one, output is encrypted (*sealed*) through the other. So nothing waits in OpenSSL, and partial writes, slow readers and
lost clients are handled as by a plain Transport. Pieces are small because OpenSSL's buffers never shrink.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

import trio

from broker.server.commits.committer import Committer
from broker.server.engine import Engine
from broker.server.net.tls_context import Security
from broker.server.net.transport import RECEIVE_BYTES, Transport, TransportSettings
from broker.session.login.handshake import HTTP_VERBS
from broker.session.peer import Peer, Secured
from broker.session.registry import Registry
from broker.wire.frames import Piece

log = logging.getLogger("leveret.connection")

PIECE_BYTES = 16 * 1024
RECORD_BYTES = 17 * 1024
"""Largest part of a record that OpenSSL may have from an earlier read."""
HANDSHAKE_BYTES = 16 * 1024

_sealed = memoryview(bytearray(RECEIVE_BYTES))
_opened = memoryview(bytearray(RECEIVE_BYTES + RECORD_BYTES))


class SecureTransport(Transport):
    """Moves encrypted bytes between a socket and a connection."""

    def __init__(
        self,
        sock: socket.socket,
        peer: Peer,
        registry: Registry,
        engine: Engine,
        committer: Committer,
        settings: TransportSettings,
        nursery: trio.Nursery,
        security: Security,
    ) -> None:
        super().__init__(sock, peer, registry, engine, committer, settings, nursery)
        self._sockets = None  # what is received may be a part of a record, or of the handshake
        self._security = security
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = security.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._read_into = cast("Callable[[int, memoryview], int]", self._tls.read)  # without a buffer it gives bytes
        self._take = self._seal
        self._early = b""
        self._over = False

    async def _read(self) -> None:
        if await self._shake_hands():
            await super()._read()

    def _warn(self, text: str, *reason: str) -> None:
        log.warning(text, self._peer, *reason, extra=self.connection.log_fields())

    # The handshake

    async def _shake_hands(self) -> bool:
        """Do the TLS handshake, within the reader's time limit. False if it failed."""
        first = b""
        while True:
            size = await self._fill(HANDSHAKE_BYTES)
            if not size:
                self._warn("connection %s: client closed TCP connection within the TLS handshake")
                return False
            first = first or bytes(_sealed[: min(size, 8)])
            self._incoming.write(_sealed[:size])
            async with self._security.handshake_step:
                if self._step(first):
                    return not self.connection.ended

    def _step(self, first: bytes) -> bool:
        """Do one step of the handshake with the bytes received so far. True when it has ended, or failed."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._say_sealed()
            return False
        except ssl.SSLError as error:
            self._warn("closing connection %s: %s", _complaint(error, first))
            self._fail()
            return True
        self.connection.peer = self._peer._replace(secured=self._agreed())
        self._early = self._open(0)
        self._say_sealed()
        return True

    def _agreed(self) -> Secured:
        cipher = self._tls.cipher()
        certificate = self._tls.getpeercert(binary_form=True)
        return Secured(self._tls.version() or "", cipher[0] if cipher else "", certificate, self._security.asks)

    # Reading

    async def _receive(self) -> bytes:
        while not self._early and not self._over:
            size = await self._fill(RECEIVE_BYTES)
            if not size:
                return b""
            self._early = self._open(size)
            if self._outgoing.pending:
                self._say_sealed()
        self.last_received, self.lay_unread = trio.current_time(), 0
        data, self._early = self._early, b""
        return data

    async def _fill(self, size: int) -> int:
        """Receive at most `size` encrypted bytes and return their number; 0 at the end of the stream."""
        while True:
            self._acks.acknowledge_unanswered(self.connection.traffic.send_cnt)
            await self._settings.readable(self._socket)
            try:
                received = self._socket.recv_into(_sealed, size)
            except BlockingIOError:
                continue
            except OSError:
                return 0
            traffic = self.connection.traffic
            traffic.received(received)
            self._acks.received(received, traffic.send_cnt)
            return received

    def _open(self, size: int) -> bytes:
        """Decrypt `size` received bytes, with an earlier part of their first record."""
        end = 0
        try:
            for start in range(0, size or 1, PIECE_BYTES):
                self._incoming.write(_sealed[start : min(start + PIECE_BYTES, size)])
                end = self._open_piece(end)
        except ssl.SSLError as error:
            self._warn("closing connection %s: TLS failed: %s", words(error))
            self._fail()
        return bytes(_opened[:end])

    def _open_piece(self, end: int) -> int:
        while not self._over:
            try:
                read = self._read_into(RECEIVE_BYTES, _opened[end:])
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                read = 0
            self._over = not read
            end += read
        assert end <= len(_opened), f"{end} bytes were decrypted into a buffer of {len(_opened)}"
        return end

    # Writing

    def _seal(self) -> list[Piece]:
        """Return all output encrypted, with the TLS messages that OpenSSL has to send itself."""
        data = memoryview(self.connection.output.take())
        parts = []
        try:
            for start in range(0, len(data), PIECE_BYTES):
                self._tls.write(data[start : start + PIECE_BYTES])
                parts.append(self._outgoing.read())
        except ssl.SSLError as error:
            self._warn("connection %s: cannot encrypt its output: %s", words(error))
            self._fail()
        parts.append(self._outgoing.read())
        return [sealed] if (sealed := b"".join(parts)) else []

    def _say_sealed(self) -> None:
        self.connection.output.touch()
        self._engine.end_turn()

    def _part(self) -> None:
        """Send TLS's close_notify, by which the client knows that the stream was not cut off."""
        if self._unsent is not None:
            return
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # the client has not sent its close_notify, for which we do not wait
        except ValueError:
            pass  # the handshake has not begun
        try:
            self.connection.traffic.sent(self._socket.send(self._outgoing.read()))
        except OSError:
            pass

    def _fail(self) -> None:
        """End the connection; OpenSSL's alert is sent to the client with the output."""
        self._over = True
        self.connection.end()

    @property
    def _peer(self) -> Peer:
        return self.connection.peer


def _complaint(error: ssl.SSLError, first: bytes) -> str:
    """Return a text for a failed handshake that names the cause and the setting."""
    if first.startswith(b"AMQP"):
        return "a client without TLS on a TLS port; amqp clients use a port of server.listen"
    if first.startswith(HTTP_VERBS):
        return f"an HTTP client on an AMQP port with TLS, it sent {first!r}"
    return f"TLS handshake failed: {words(error)}"


_MEANINGS = {
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the authority that signed our certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client refuses our certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client refuses our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the client says that our certificate has expired",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has shown no certificate",
    "UNSUPPORTED_PROTOCOL": "the client speaks no version from tls.minimum_version up",
    "NO_SHARED_CIPHER": "the client knows none of our ciphers",
    "WRONG_VERSION_NUMBER": "the client does not speak TLS",
}


def words(error: ssl.SSLError) -> str:
    """Return a text for an error of OpenSSL that names the cause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    reason = error.reason or "UNEXPECTED_EOF"
    return _MEANINGS.get(reason, reason.replace("_", " ").lower())
