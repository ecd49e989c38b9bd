"""A small blocking AMQP client on the broker's own codec: one connection, one channel, no heartbeats."""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

import click

from broker.admin.protocol import AdministrationError
from broker.wire import methods
from broker.wire.assembler import Assembler, Command
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from broker.wire.field_tables import from_python
from broker.wire.frames import FRAME_OVERHEAD, FRAME_START, PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.method import Method

Answer = TypeVar("Answer", bound=Method)

ANSWER_SECONDS = 30.0
CONNECT_SECONDS = 10.0
FRAME_MAX_BYTES = 131_072
RECEIVE_BYTES = 1 << 18
CHANNEL = 1
CAPABILITIES = (
    "publisher_confirms",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "authentication_failure_close",
)


class Login(NamedTuple):
    """Where a broker is, and as which user to enter which virtual host."""

    host: str
    port: int
    user: str
    password: str
    vhost: str
    security: ssl.SSLContext | None


def login(broker: Mapping[str, str]) -> Login:
    """The login that the options of a command name. Raises OSError for a file that cannot be read."""
    place = urlsplit(broker.get("uri", ""))
    tls = "tls" in broker or place.scheme == "amqps"
    password = broker.get("password") or unquote(place.password or "guest")
    if "passwordFile" in broker:
        password = Path(broker["passwordFile"]).read_text(encoding="utf-8").rstrip("\r\n")
    return Login(
        broker.get("host") or place.hostname or "127.0.0.1",
        int(broker.get("port") or place.port or (5671 if tls else 5672)),
        broker.get("user") or unquote(place.username or "guest"),
        password,
        broker.get("vhost") or unquote(place.path[1:]) or "/",
        ssl.create_default_context(cafile=broker.get("tlsCaFile")) if tls else None,
    )


@contextmanager
def logged_in(broker: Mapping[str, str]) -> Iterator[AmqpClient]:
    """A client with an open channel, closed in order at the end. Raises AdministrationError."""
    it = login(broker)
    client = AmqpClient(_connected(it))
    try:
        client.enter(it)
        yield client
        client.leave()
    except BaseException:
        with suppress(AdministrationError, OSError):
            client.leave()
        raise
    finally:
        client.close()


def _connected(it: Login) -> socket.socket:
    try:
        plain = socket.create_connection((it.host, it.port), CONNECT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected = plain if it.security is None else it.security.wrap_socket(plain, server_hostname=it.host)
        connected.settimeout(ANSWER_SECONDS)
        return connected
    except OSError as error:
        reason = error.strerror or str(error)
        raise AdministrationError("failed", f"cannot connect to {it.host}:{it.port}: {reason}") from error


class AmqpClient:
    """One connection. What the broker refuses, by closing the channel or the connection, is an AdministrationError."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._rest = b""
        self._assembler = Assembler()
        self._arrived: deque[Command] = deque()
        self._frame_max = FRAME_MAX_BYTES

    def enter(self, it: Login) -> None:
        """Log in and open the channel."""
        self.send_bytes(PROTOCOL_HEADER)
        self._await(methods.ConnectionStart)
        said = from_python({"product": "leveret", "capabilities": dict.fromkeys(CAPABILITIES, True)})
        response = f"\0{it.user}\0{it.password}".encode("utf-8", "surrogateescape")
        self._send(0, methods.ConnectionStartOk(said, "PLAIN", response, "en_US"))
        try:
            tune = self._await(methods.ConnectionTune)
        except AdministrationError as error:
            cure = "--user names the user, and LEVERET_PASSWORD or --password-file the password"
            raise AdministrationError(error.kind, f"{error} ({cure})") from error
        self._frame_max = min(tune.frame_max or FRAME_MAX_BYTES, FRAME_MAX_BYTES)
        self._send(0, methods.ConnectionTuneOk(tune.channel_max, self._frame_max, 0), methods.ConnectionOpen(it.vhost))
        self._await(methods.ConnectionOpenOk)
        self.call(methods.ChannelOpen(), methods.ChannelOpenOk)

    def leave(self) -> None:
        """Say goodbye; what was sent before has been handled when this returns."""
        self._send(0, methods.ConnectionClose(200, "", 0, 0))
        self._await(methods.ConnectionCloseOk)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def call(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a method and wait for its answer; messages that come meanwhile wait. Raises AdministrationError."""
        self._send(CHANNEL, method)
        return self._await(answer)

    def send(self, *sent: Method) -> None:
        """Send methods that have no answer."""
        self._send(CHANNEL, *sent)

    def send_bytes(self, data: bytes) -> None:
        """Send what `encode` has made. Raises AdministrationError when the broker does not take it."""
        try:
            self._socket.sendall(data)
        except TimeoutError as error:
            text = f"the broker has taken nothing for {ANSWER_SECONDS:g} seconds; `leveret status` shows its alarms"
            raise AdministrationError("failed", text) from error
        except ConnectionError:
            while True:  # until what it said before it went is read
                self._receive()

    def encode(self, method: Method, header: bytes, body: bytes) -> bytes:
        """A method with its content, to be sent."""
        return method_frame(CHANNEL, method) + content_frames(CHANNEL, header, body, self._frame_max)

    def next(self, seconds: float | None) -> Command | None:
        """The next thing that the broker says, or None when nothing comes in so many seconds; None: any time."""
        while not self._arrived:
            decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
            if not decrypted and not select.select([self._socket], [], [], seconds)[0]:
                return None
            self._receive()
        return self._arrived.popleft()

    def _await(self, answer: type[Answer]) -> Answer:
        """The first of this kind; what comes before it stays in line."""
        passed = deque[Command]()
        while (command := self.next(ANSWER_SECONDS)) is not None:
            if isinstance(command.method, answer):
                self._arrived.extendleft(reversed(passed))
                return command.method
            passed.append(command)
        raise AdministrationError("failed", f"the broker has not answered in {ANSWER_SECONDS:g} seconds")

    def _send(self, channel: int, *sent: Method) -> None:
        self.send_bytes(b"".join(method_frame(channel, method) for method in sent))

    def _receive(self) -> None:
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except (ConnectionError, TimeoutError):
            data = b""
        if not data:
            raise AdministrationError("failed", "the broker has closed the connection; its log says why")
        data, at = self._rest + data, 0
        while len(data) - at >= FRAME_OVERHEAD:
            kind, _, size = FRAME_START.unpack_from(data, at)
            end = at + FRAME_OVERHEAD + size
            if end > len(data):
                break
            self._frame(kind, data[at + FRAME_START.size : end - 1])
            at = end
        self._rest = data[at:]

    def _frame(self, kind: int, payload: bytes) -> None:
        command = None
        if kind == FRAME_METHOD:
            method = methods.DECODERS[int.from_bytes(payload[:4], "big")](payload)
            command = self._assembler.method(method, payload[4:])
        elif kind == FRAME_HEADER:
            command = self._assembler.header(payload)
        elif kind == FRAME_BODY:
            command = self._assembler.body(payload)
        if command is not None and not self._handled(command.method):
            self._arrived.append(command)

    def _handled(self, method: Any) -> bool:
        """What concerns the connection is dealt with here. Raises AdministrationError for a close."""
        if isinstance(method, methods.ChannelClose | methods.ConnectionClose):
            with suppress(OSError, AdministrationError):
                if isinstance(method, methods.ConnectionClose):
                    self._send(0, methods.ConnectionCloseOk())
            raise AdministrationError("refused", f"{method.reply_code} {method.reply_text}")
        if isinstance(method, methods.BasicCancel):
            raise AdministrationError("refused", "the queue is deleted")
        if isinstance(method, methods.ConnectionBlocked):
            click.echo(f"leveret: the broker lets publishers wait: {method.reason}", err=True)
        return isinstance(method, methods.ConnectionBlocked | methods.ConnectionUnblocked)
