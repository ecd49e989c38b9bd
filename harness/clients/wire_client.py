"""A small blocking client that says exactly what it is told and shows exactly what comes back.

Nothing is done behind the test's back: no acknowledgement, no heartbeat, no reply to a close, except where a method's
docstring says so. The protocol is `AmqpPeer`'s, the socket is here.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any, Self, TypeVar

from broker.wire.frames import PROTOCOL_HEADER
from broker.wire.method import Method
from broker.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStart,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import BasicProperties, encode_header
from harness.clients.amqp_peer import AmqpPeer, Item, Login, Message, UnexpectedFrame, message_frames, method_frames

TIMEOUT_SECONDS = 30.0
"""Longest wait for an answer, also on a busy machine."""
Address = tuple[str, int]
AnyMethod = TypeVar("AnyMethod", bound=Method)


class Client:
    """One connection. Items that arrive wait in a queue per channel until a test asks for them."""

    def __init__(
        self, address: Address, security: ssl.SSLContext | None = None, *, timeout: float = TIMEOUT_SECONDS
    ) -> None:
        """Connect, and say nothing yet; `timeout` is how many seconds an answer may take."""
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security is not None:
            self.socket = security.wrap_socket(self.socket, server_hostname="localhost")
        self.peer = AmqpPeer()
        self.channels: dict[int, Method] = {}
        """The channels that are open, or closed by the broker, and what a client says to be done with each."""
        self.ended = False
        """Either side has said connection.close."""
        self._timeout = timeout

    @classmethod
    def connect(
        cls,
        address: Address,
        *,
        channels: Iterable[int] = (1,),
        security: ssl.SSLContext | None = None,
        timeout: float = TIMEOUT_SECONDS,
        **login: Any,
    ) -> Self:
        """Go through the whole handshake and open the channels; the other keywords are those of `Login`.

        The socket is closed if that fails.
        """
        client = cls(address, security, timeout=timeout)
        try:
            client._shake_hands(Login(**login), time.monotonic() + timeout)
            for channel in channels:
                client.open_channel(channel)
        except BaseException:
            client.close()
            raise
        return client

    # --- the handshake, step by step ---

    def start(self, **login: Any) -> None:
        """Send the protocol header and connection.start-ok; keywords are those of `Login`."""
        self.send_raw(PROTOCOL_HEADER)
        self.peer.server_start = self.expect(ConnectionStart, channel=0)
        self.send(Login(**login).start_ok(), channel=0)

    def tune(self, answer: ConnectionTuneOk | None = None) -> None:
        """Await connection.tune and accept it, heartbeats off, or answer with something else."""
        tune = self.peer.server_tune = self.expect(ConnectionTune, channel=0)
        answer = Login(tune=answer).tune_ok(tune.channel_max, tune.frame_max)
        self.peer.frame_max = answer.frame_max
        self.send(answer, channel=0)

    def open_channel(self, channel: int = 1) -> None:
        self.send(ChannelOpen(), channel=channel)
        self.expect(ChannelOpenOk, channel=channel)

    def close_channel(self, channel: int = 1) -> None:
        self.send(ChannelClose(200, "", 0, 0), channel=channel)
        self.expect(ChannelCloseOk, channel=channel)

    # --- sending ---

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, *methods: Method, channel: int = 1) -> None:
        """Send methods in one write."""
        for method in methods:
            if isinstance(method, ChannelOpen):
                self.channels[channel] = ChannelClose(200, "", 0, 0)
            elif isinstance(method, ChannelClose | ChannelCloseOk):
                self.channels.pop(channel, None)
            self.ended |= isinstance(method, ConnectionClose)
        self.send_raw(method_frames(channel, *methods))

    def publish(
        self,
        body: bytes,
        *,
        exchange: str = "",
        key: str = "",
        mandatory: bool = False,
        properties: BasicProperties | None = None,
        header: bytes | None = None,
        channel: int = 1,
    ) -> None:
        """Publish one message; `header` replaces the content header made of the properties."""
        method = BasicPublish(exchange, key, mandatory, False)
        header = encode_header(len(body), properties or BasicProperties()) if header is None else header
        self.send_content(method, header, body, channel=channel)

    def send_content(self, method: Method, header: bytes, body: bytes, *, channel: int = 1) -> None:
        """Send a method with its content in one write."""
        self.send_raw(message_frames(channel, method, header, body, self.peer.frame_max))

    # --- receiving ---

    def receive(self, *, channel: int = 1, timeout: float | None = None) -> Item:
        """Return the next item of a channel, or what arrives on channel 0 meanwhile (a connection.close).

        Raises TimeoutError when nothing came, ConnectionError or EOFError when the peer is gone.
        """
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        while True:
            item = self.peer.take(channel) or self.peer.take(0)
            if isinstance(item, ChannelClose):
                self.channels[channel] = ChannelCloseOk()
            self.ended |= isinstance(item, ConnectionClose)
            if item is not None:
                return item
            self._read(deadline)

    def expect(self, method: type[AnyMethod], *, channel: int = 1) -> AnyMethod:
        """Return the next item, which must be this method."""
        item = self.receive(channel=channel)
        if not isinstance(item, method):
            raise UnexpectedFrame(f"expected {method.NAME}, got {item}")
        return item

    def expect_message(self, method: type[Method], *, channel: int = 1) -> Message:
        """Return the next item, which must be this method with content."""
        item = self.receive(channel=channel)
        if not isinstance(item, Message) or not isinstance(item.method, method):
            raise UnexpectedFrame(f"expected {method.NAME}, got {item}")
        return item

    def ask(self, method: Method, *, channel: int = 1) -> Any:
        """Send a method and return its `-ok`."""
        self.send(method, channel=channel)
        item = self.receive(channel=channel)
        if getattr(item, "NAME", None) != f"{method.NAME}-ok":
            raise UnexpectedFrame(f"expected {method.NAME}-ok, got {item}")
        return item

    def arrived(self, *, channel: int = 1) -> list[Item]:
        """Take what has already been read for a channel. Nothing is awaited: ask for something first."""
        return self.peer.take_all(channel)

    def refusal(self, method: Method, *, channel: int = 1) -> str:
        """Send a method that must be refused, and return how: see `closing`."""
        self.send(method, channel=channel)
        return self.closing(method, channel=channel)

    def closing(self, cause: Method | type[Method] | None = None, *, channel: int = 1) -> str:
        """Await a close and return it as `channel 404 NOT_FOUND - ...` or `connection 540 NOT_IMPLEMENTED - ...`.

        The close must name `cause`'s class and method (0/0 for None). It is answered; a closed channel is opened again.
        """
        item = self.receive(channel=channel)
        assert isinstance(item, ChannelClose | ConnectionClose), f"expected a close, got {item}"
        assert (item.class_id, item.method_id) == ((cause.CLASS_ID, cause.METHOD_ID) if cause else (0, 0)), item
        if isinstance(item, ConnectionClose):
            self.send(ConnectionCloseOk(), channel=0)
            return f"connection {item.reply_code} {item.reply_text}"
        self.send(ChannelCloseOk(), channel=channel)
        self.open_channel(channel)
        return f"channel {item.reply_code} {item.reply_text}"

    def expect_gone(self) -> list[Item]:
        """Await the end of the connection, by FIN or by RST; return what came before it, over all channels.

        A connection.close is answered, so that the peer need not wait.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        answered = False
        try:
            while True:
                self._read(deadline)
                if not answered and any(isinstance(item, ConnectionClose) for item in self.peer.everything()):
                    self.send(ConnectionCloseOk(), channel=0)
                    answered = True
        except (EOFError, ConnectionError):
            return self.peer.everything()

    def await_heartbeats(self, count: int) -> None:
        """Return when `count` heartbeats have come since the connection began."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.peer.heartbeats < count:
            self._read(deadline)

    def receive_raw(self, size: int) -> bytes:
        """Return `size` bytes as they come; for what is no frame."""
        data = b""
        while len(data) < size:
            data += self._receive_some(time.monotonic() + TIMEOUT_SECONDS)
        return data

    def finish(self) -> None:
        """Say that nothing more will be sent; receiving goes on."""
        self.socket.shutdown(socket.SHUT_WR)

    def leave_channels(self) -> bool:
        """Close every channel and forget what came on it, so that another may have the connection.

        False: it has come to its end. The connection's exclusive queues are left.
        """
        try:
            for channel, farewell in list(self.channels.items()):
                if self.ended:
                    break
                self.send(farewell, channel=channel)
                if isinstance(farewell, ChannelClose):
                    self._await_close_ok(channel)
                self.arrived(channel=channel)
        except (OSError, EOFError):
            return False
        return not self.ended

    def _await_close_ok(self, channel: int) -> None:
        while not isinstance(self.receive(channel=channel), ChannelCloseOk | ConnectionClose):
            pass
        if channel in self.channels:  # both sides have closed it at once
            self.send(ChannelCloseOk(), channel=channel)

    def close(self) -> None:
        """Drop the socket without a word."""
        self.socket.close()

    def _shake_hands(self, login: Login, deadline: float) -> None:
        self.peer.begin(login)
        while self.peer.handshaking:
            self.send_raw(self.peer.take_output())
            self._read(deadline)

    def _read(self, deadline: float) -> None:
        self.peer.receive(self._receive_some(deadline))

    def _receive_some(self, deadline: float) -> bytes:
        self.socket.settimeout(max(0.01, deadline - time.monotonic()))
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError("the peer closed the socket")
        return data
