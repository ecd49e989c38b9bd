"""A small blocking AMQP client: one connection, one channel, no heartbeats."""

from __future__ import annotations

import select
import socket
import ssl
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import click

from broker.admin.protocol import AdministrationError
from broker.cli.table_output import text
from broker.client.client_state import ClientConnection, ClientError, ClosedByBroker, announced
from broker.client.uris import AMQP_PORT, AMQPS_PORT, AmqpEndpoint, ClientTls
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.constants import ReplyCode
from broker.wire.frames import content_frames, method_frame
from broker.wire.method import Method

Answer = TypeVar("Answer", bound=Method)

ANSWER_SECONDS = 30.0
CONNECT_SECONDS = 10.0
RECEIVE_BYTES = 1 << 18
CHANNEL = 1


def endpoint(broker: Mapping[str, str]) -> AmqpEndpoint:
    """Return the address and the user that the options of a command name.

    Raises OSError for a file that cannot be read, AdministrationError for a URI that is none.
    """
    place = _split(broker["uri"]) if "uri" in broker else urlsplit("")
    secure = "tls" in broker or place.scheme == "amqps"
    host = broker.get("host") or place.hostname or "127.0.0.1"
    port = int(broker.get("port") or place.port or (AMQPS_PORT if secure else AMQP_PORT))
    password = broker.get("password") or unquote(place.password or "")
    if "passwordFile" in broker:
        password = Path(broker["passwordFile"]).read_text(encoding="utf-8").rstrip("\r\n")
    return AmqpEndpoint(
        f"{host}:{port}",
        host,
        port,
        broker.get("user") or unquote(place.username or ""),
        password,
        broker.get("vhost") or unquote(place.path[1:]) or "/",
        ClientTls(broker.get("tlsCaFile", ""), name=host) if secure else None,
        heartbeat=0,
    )


def _split(uri: str) -> SplitResult:
    """A URI taken apart; a complaint never quotes it, for it may hold a password."""
    try:
        place = urlsplit(uri)
        usable = place.scheme in ("amqp", "amqps") and place.hostname is not None and place.port != 0
    except ValueError:
        usable = False
    if not usable:
        form = "amqp://user@host:port/vhost or amqps://, with %2F for a slash in a name"
        raise AdministrationError("invalid", f"the URI cannot be read: expected {form}")
    return place


@contextmanager
def logged_in(broker: Mapping[str, str]) -> Iterator[AmqpClient]:
    """A client with an open channel, closed in order at the end. Raises AdministrationError."""
    place = endpoint(broker)
    client = AmqpClient(_connected(place), ClientConnection(place, announced({"product": "leveret"})))
    try:
        client.enter()
        yield client
        client.leave()
    except BaseException:
        with suppress(AdministrationError, OSError):
            client.leave()
        raise
    finally:
        client.close()


def _connected(place: AmqpEndpoint) -> socket.socket:
    try:
        connected = socket.create_connection((place.host, place.port), CONNECT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if place.tls is not None:
            context = ssl.create_default_context(cafile=place.tls.ca_file or None)
            connected = context.wrap_socket(connected, server_hostname=place.tls.name)
        connected.settimeout(ANSWER_SECONDS)
        return connected
    except OSError as error:
        reason = error.strerror or str(error)
        raise AdministrationError("failed", f"cannot connect to {place.uri}: {reason}") from error


class AmqpClient:
    """One connection. What the broker refuses, by closing the channel or the connection, is an AdministrationError."""

    def __init__(self, sock: socket.socket, connection: ClientConnection) -> None:
        self._socket = sock
        self._connection = connection
        self._arrived: deque[Command] = deque()

    def enter(self) -> None:
        """Log in and open the channel."""
        try:
            while not self._connection.opened:
                self._flush()
                self._receive()
        except AdministrationError as error:
            if not str(error).startswith(str(ReplyCode.ACCESS_REFUSED.value)):
                raise
            cure = "--user names the user, and LEVERET_PASSWORD or --password-file the password"
            raise AdministrationError(error.kind, f"{error} ({cure})") from error
        self.call(methods.ChannelOpen(), methods.ChannelOpenOk)

    def leave(self) -> None:
        """Say goodbye; what was sent before has been handled when this returns."""
        self._connection.send(0, methods.ConnectionClose(200, "", 0, 0))
        self._flush()
        while not self._connection.ended:
            self._receive()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def call(self, method: Method, answer: type[Answer]) -> Answer:
        """Send a method and wait for its answer; messages that come meanwhile wait. Raises AdministrationError."""
        self.send(method)
        passed = deque[Command]()
        while (command := self.next(ANSWER_SECONDS)) is not None:
            if isinstance(command.method, answer):
                self._arrived.extendleft(reversed(passed))
                return command.method
            passed.append(command)
        raise AdministrationError("failed", f"the broker has not answered in {ANSWER_SECONDS:g} seconds")

    def send(self, *sent: Method) -> None:
        """Send methods that have no answer."""
        self._connection.send(CHANNEL, *sent)
        self._flush()

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
        return method_frame(CHANNEL, method) + content_frames(CHANNEL, header, body, self._connection.frame_max)

    def next(self, seconds: float | None) -> Command | None:
        """Return the broker's next event, or None after `seconds` without one; None waits without limit."""
        while not self._arrived:
            decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
            if not decrypted and not select.select([self._socket], [], [], seconds)[0]:
                return None
            self._receive()
        return self._arrived.popleft()

    def _flush(self) -> None:
        self.send_bytes(self._connection.take())

    def _receive(self) -> None:
        """Take in what has come. Raises AdministrationError for what ends the channel or the connection."""
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError as error:
            silence = f"the broker has not answered in {ANSWER_SECONDS:g} seconds"
            raise AdministrationError("failed", silence) from error
        except ConnectionError:
            data = b""
        if not data:
            raise AdministrationError("failed", "the broker has closed the connection; its log says why")
        blocked = self._connection.blocked
        try:
            arrived = self._connection.receive(data)
        except ClosedByBroker as error:
            with suppress(OSError):
                self._socket.sendall(self._connection.take())
            raise AdministrationError("refused", str(error)) from error
        except ClientError as error:
            raise AdministrationError("failed", str(error)) from error
        if self._connection.blocked and not blocked:
            click.echo(f"leveret: the broker lets publishers wait: {text(self._connection.blocked)}", err=True)
        self._arrived.extend(_unless_ended(command) for _channel, command in arrived)


def _unless_ended(command: Command) -> Command:
    method = command.method
    if isinstance(method, methods.ChannelClose):
        raise AdministrationError("refused", f"{method.reply_code} {method.reply_text}")
    if isinstance(method, methods.BasicCancel):
        raise AdministrationError("refused", "the queue is deleted")
    return command
