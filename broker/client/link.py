"""A client's connection on a stream: connecting, heartbeats, one call at a time, and receiving."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

import trio

from broker.client.client_state import Arrival, ClientConnection, ClientError, ClosedByBroker, announced
from broker.client.uris import AmqpEndpoint, ClientTls
from broker.wire import methods
from broker.wire.method import Method

Answer = TypeVar("Answer", bound=Method)

RECEIVE_BYTES = 1 << 18
"""Bytes read at once by a program that does nothing else: they are handled without a pause."""
CLOSE_SECONDS = 2.0
CHANNEL = 1


class Entered(NamedTuple):
    """A connection that is open from the start: its socket, and the largest frame."""

    socket: socket.socket
    frame_max: int


Enter = Callable[[AmqpEndpoint, Mapping[str, object]], Entered]
"""Makes a connection to the broker itself. Raises ClientError."""


class Silent(ClientError):
    """The broker has sent nothing for two heartbeats."""


class ChannelClosed(ClosedByBroker):
    """The broker has closed a channel; the connection stays open."""


async def connect(
    endpoint: AmqpEndpoint,
    properties: Mapping[str, object],
    enter: Enter | None = None,
    *,
    receive_bytes: int = RECEIVE_BYTES,
) -> Link:
    """Connect, and open channel 1. Raises ClientError.

    `enter` connects to the broker itself, for URIs without a host; at most `receive_bytes` are read at once.
    """
    properties = announced(properties)
    if endpoint.host is None:
        if enter is None:
            raise ClientError(f"{endpoint.uri} names no host")
        entered = enter(endpoint, properties)
        stream: trio.abc.Stream = trio.SocketStream(trio.socket.from_stdlib_socket(entered.socket))
        connection = ClientConnection(endpoint, properties, entered=entered.frame_max)
        link = Link(stream, connection, receive_bytes)
    else:
        with trio.move_on_after(endpoint.connect_seconds) as patience:
            stream = await _stream(endpoint, endpoint.host)
            link = Link(stream, ClientConnection(endpoint, properties), receive_bytes)
        if patience.cancelled_caught:
            raise ClientError(f"no connection to {endpoint.uri} in {endpoint.connect_seconds:g} seconds")
    try:
        with trio.fail_after(endpoint.connect_seconds):
            await link.open()
    except trio.TooSlowError:
        await link.abort()
        raise ClientError(f"{endpoint.uri} does not answer") from None
    except BaseException:  # cancelled, too: nobody else would close the socket
        await link.abort()
        raise
    return link


async def connect_any(
    endpoints: Sequence[AmqpEndpoint],
    properties: Mapping[str, object],
    enter: Enter | None = None,
    *,
    receive_bytes: int = RECEIVE_BYTES,
) -> tuple[Link, AmqpEndpoint]:
    """Connect to the first endpoint that can be reached. Raises the ClientError of the last one."""
    for endpoint in endpoints[:-1]:
        with suppress(ClientError):
            return await connect(endpoint, properties, enter, receive_bytes=receive_bytes), endpoint
    return await connect(endpoints[-1], properties, enter, receive_bytes=receive_bytes), endpoints[-1]


async def _stream(endpoint: AmqpEndpoint, host: str) -> trio.abc.Stream:
    try:
        plain = await trio.open_tcp_stream(host, endpoint.port)
        return plain if endpoint.tls is None else await _secured(plain, endpoint.tls)
    except (OSError, trio.BrokenResourceError) as error:
        reason = error.__cause__ or error
        first = reason.exceptions[0] if isinstance(reason, BaseExceptionGroup) else reason
        raise ClientError(f"cannot connect to {endpoint.uri}: {first}") from error


async def _secured(plain: trio.SocketStream, tls: ClientTls) -> trio.abc.Stream:
    try:
        secure = trio.SSLStream(plain, _context(tls), server_hostname=tls.name)
        await secure.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(plain)
        raise
    return secure


def _context(tls: ClientTls) -> ssl.SSLContext:
    """Return the TLS context of a URI's parameters. Raises OSError for files that cannot be used."""
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    context.check_hostname = tls.verify and tls.name is not None
    if not tls.verify:
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate_file:
        context.load_cert_chain(tls.certificate_file, tls.key_file or None, tls.key_password or "")
    return context


class Link:
    """A connection with channel 1 open.

    One task receives and calls; several may send. All failures raise ClientError.
    """

    def __init__(self, stream: trio.abc.Stream, connection: ClientConnection, receive_bytes: int) -> None:
        self.connection = connection
        self._receive_bytes = receive_bytes
        self._stream = stream
        self._sending = trio.Lock()
        self._early: list[Arrival] = []
        self._published = 0
        self._torn = False
        """The last frame may have been cut short, so that nothing more can be sent."""

    async def open(self) -> None:
        """Do the handshake, and open the channel."""
        while not self.connection.opened:
            await self.flush()
            await self._read()
        await self.call(methods.ChannelOpen(), methods.ChannelOpenOk)

    # Sending

    def send(self, method: Method) -> None:
        """Collect a method for the channel; `flush` sends it."""
        self.connection.send(CHANNEL, method)

    def publish(self, publish: bytes, header: bytes, body: bytes) -> int:
        """Collect a message (`ClientConnection.publish`) and return its publish number, for confirms."""
        self.connection.publish(CHANNEL, publish, header, body)
        self._published += 1
        return self._published

    async def flush(self) -> None:
        """Send all that was collected before.

        A lost connection is not an error here but of the next read: the broker may have sent the reason.
        """
        async with self._sending:
            data = self.connection.take()
            if data and not self._torn:
                try:
                    self._torn = True
                    await self._stream.send_all(data)
                    self._torn = False
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass

    async def keep_alive(self) -> None:
        """Send heartbeats while nothing else is sent, until cancelled."""
        while True:
            await trio.sleep((self.connection.heartbeat or 60) / 2)
            if self.connection.heartbeat and not self._sending.locked():
                self.connection.beat()
                await self.flush()

    # Receiving

    async def receive(self) -> list[Arrival]:
        """Return the next commands on channels, at least one. Raises ChannelClosed for a close of channel 1."""
        while True:
            arrived, self._early = self._early or await self._read(), []
            for arrival in arrived:
                if isinstance(arrival.command.method, methods.ChannelClose) and arrival.channel == CHANNEL:
                    raise self._closed(arrival)
            if arrived:
                return arrived

    async def call(self, method: Method, answer: type[Answer], channel: int = CHANNEL) -> Answer:
        """Send a method and return its answer; commands that arrive before it are kept for `receive`."""
        self.connection.send(channel, method)
        await self.flush()
        while True:
            arrived = await self._read()
            for at, arrival in enumerate(arrived):
                if arrival.channel == channel and isinstance(arrival.command.method, answer):
                    self._early += arrived[at + 1 :]
                    return arrival.command.method
                if arrival.channel == channel and isinstance(arrival.command.method, methods.ChannelClose):
                    raise self._closed(arrival)
                self._early.append(arrival)

    def _closed(self, arrival: Arrival) -> ChannelClosed:
        close = arrival.command.method
        assert isinstance(close, methods.ChannelClose)
        self.connection.send(arrival.channel, methods.ChannelCloseOk())
        return ChannelClosed(close.reply_code, close.reply_text)

    async def _read(self) -> list[Arrival]:
        heartbeat = self.connection.heartbeat
        with trio.move_on_after(2 * heartbeat or float("inf")) as patience:
            try:
                data = bytes(await self._stream.receive_some(self._receive_bytes))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                data = b""
        if patience.cancelled_caught:
            raise Silent("heartbeat timeout")
        if not data:
            raise ClientError("the connection is lost")
        return self.connection.receive(data)

    # Ending

    async def close(self) -> None:
        """Close the connection, within CLOSE_SECONDS, and the socket, even if this is cancelled."""
        with trio.move_on_after(CLOSE_SECONDS, shield=True), suppress(ClientError):
            if self._torn:
                raise ClientError("a frame was cut short")
            self.connection.send(0, methods.ConnectionClose(200, "", 0, 0))
            await self.flush()
            while not self.connection.ended:
                await self._read()
        await self.abort()

    async def abort(self) -> None:
        """Close the socket."""
        await trio.aclose_forcefully(self._stream)
