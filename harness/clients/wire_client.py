"""A small blocking client that says exactly what it is told and shows exactly what comes back.

It is built on the broker's own codec, which tests/unit/wire checks against literal bytes. Nothing is done behind the
test's back: no acknowledgement, no heartbeat, no reply to a close, except where a method's docstring says so.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Self, TypeVar

from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    DECODERS,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import BasicProperties, body_size, decode_properties, encode_header
from harness.clients.frame_cutter import Frame, FrameReader

TIMEOUT_SECONDS = 10.0
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}
Address = tuple[str, int]
AnyMethod = TypeVar("AnyMethod", bound=Method)


class Message(NamedTuple):
    """A method that came with content: basic.deliver, basic.return or basic.get-ok."""

    method: Any
    header: bytes
    body: bytes

    @property
    def properties(self) -> BasicProperties:
        return decode_properties(self.header)


class Inbox:
    """What has arrived, put together into methods and messages, waiting in a queue per channel.

    Checks what a server owes: content in one piece per channel, no frame over the negotiated size.
    """

    def __init__(self) -> None:
        self.frame_max = 131072
        self.heartbeats = 0
        self._items: dict[int, deque[Method | Message]] = {}
        self._partial: dict[int, tuple[Method, bytes, bytes]] = {}

    def put(self, frame: Frame) -> None:
        if frame.kind == FRAME_HEARTBEAT:
            self.heartbeats += 1
        elif frame.kind == FRAME_METHOD:
            assert frame.channel not in self._partial, "a method interrupts content"
            method = DECODERS[int.from_bytes(frame.payload[:4], "big")](frame.payload)
            if method.HAS_CONTENT:
                self._partial[frame.channel] = (method, b"", b"")
            else:
                self._append(frame.channel, method)
        else:
            self._put_content(frame)

    def take(self, channel: int) -> Method | Message | None:
        """The oldest item of a channel, or None."""
        items = self._items.get(channel)
        return items.popleft() if items else None

    def take_all(self, channel: int) -> list[Method | Message]:
        return list(self._items.pop(channel, ()))

    def everything(self) -> list[Method | Message]:
        """Every item of every channel, left where it is."""
        return [item for items in self._items.values() for item in items]

    def _append(self, channel: int, item: Method | Message) -> None:
        self._items.setdefault(channel, deque()).append(item)

    def _put_content(self, frame: Frame) -> None:
        assert len(frame.payload) <= self.frame_max - 8, "a frame over the negotiated size"
        method, header, body = self._partial.pop(frame.channel)
        if frame.kind == FRAME_HEADER:
            assert not header
            header = frame.payload
        else:
            assert frame.kind == FRAME_BODY
            assert header
            body += frame.payload
        if len(body) < body_size(header):
            self._partial[frame.channel] = (method, header, body)
        else:
            assert len(body) == body_size(header)
            self._append(frame.channel, Message(method, header, body))


class Client:
    """One connection. Items that arrive wait in a queue per channel until a test asks for them."""

    def __init__(self, address: Address, security: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security is not None:
            self._socket = security.wrap_socket(self._socket, server_hostname="localhost")
        self._reader = FrameReader()
        self._inbox = Inbox()
        self.server_start: ConnectionStart | None = None
        self.server_tune: ConnectionTune | None = None

    @classmethod
    def connect(
        cls,
        address: Address,
        *,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        capabilities: dict[str, bool] | None = None,
        tune: ConnectionTuneOk | None = None,
        channels: Iterable[int] = (1,),
        security: ssl.SSLContext | None = None,
    ) -> Self:
        """Go through the whole handshake and open the channels. `tune` replaces the server's own proposal."""
        client = cls(address, security)
        client.start(user=user, password=password, capabilities=capabilities)
        client.tune(tune)
        client.send(ConnectionOpen(vhost), channel=0)
        client.expect(ConnectionOpenOk, channel=0)
        for channel in channels:
            client.open_channel(channel)
        return client

    @property
    def heartbeats(self) -> int:
        """How many have come since the connection began."""
        return self._inbox.heartbeats

    # --- the handshake, step by step ---

    def start(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        capabilities: dict[str, bool] | None = None,
        mechanism: str = "PLAIN",
        response: bytes | None = None,
    ) -> None:
        """Send the protocol header and connection.start-ok."""
        self.send_raw(PROTOCOL_HEADER)
        self.server_start = self.expect(ConnectionStart, channel=0)
        properties = from_python({"capabilities": CAPABILITIES if capabilities is None else capabilities})
        if response is None:
            response = f"\0{user}\0{password}".encode()
        self.send(ConnectionStartOk(properties, mechanism, response, "en_US"), channel=0)

    def tune(self, answer: ConnectionTuneOk | None = None) -> None:
        """Await connection.tune and accept it, heartbeats off, or answer with something else."""
        tune = self.server_tune = self.expect(ConnectionTune, channel=0)
        answer = answer or ConnectionTuneOk(tune.channel_max, tune.frame_max, 0)
        self._inbox.frame_max = answer.frame_max
        self.send(answer, channel=0)

    def open_channel(self, channel: int = 1) -> None:
        self.send(ChannelOpen(), channel=channel)
        self.expect(ChannelOpenOk, channel=channel)

    def close_channel(self, channel: int = 1) -> None:
        self.send(ChannelClose(200, "", 0, 0), channel=channel)
        self.expect(ChannelCloseOk, channel=channel)

    # --- sending ---

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, *methods: Method, channel: int = 1) -> None:
        """Send methods in one write."""
        self.send_raw(b"".join(method_frame(channel, method) for method in methods))

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
        self.send_raw(method_frame(channel, method) + content_frames(channel, header, body, self._inbox.frame_max))

    # --- receiving ---

    def receive(self, *, channel: int = 1, timeout: float = TIMEOUT_SECONDS) -> Method | Message:
        """Return the next item of a channel, or what arrives on channel 0 meanwhile (a connection.close).

        Raises TimeoutError when nothing came, ConnectionError or EOFError when the peer is gone.
        """
        deadline = time.monotonic() + timeout
        while True:
            item = self._inbox.take(channel) or self._inbox.take(0)
            if item is not None:
                return item
            self._read(deadline)

    def expect(self, method: type[AnyMethod], *, channel: int = 1) -> AnyMethod:
        """Return the next item, which must be this method."""
        item = self.receive(channel=channel)
        assert isinstance(item, method), f"expected {method.NAME}, got {item}"
        return item

    def expect_message(self, method: type[Method], *, channel: int = 1) -> Message:
        """Return the next item, which must be this method with content."""
        item = self.receive(channel=channel)
        assert isinstance(item, Message), f"expected {method.NAME}, got {item}"
        assert isinstance(item.method, method), f"expected {method.NAME}, got {item}"
        return item

    def ask(self, method: Method, *, channel: int = 1) -> Any:
        """Send a method and return its `-ok`."""
        self.send(method, channel=channel)
        item = self.receive(channel=channel)
        assert getattr(item, "NAME", None) == f"{method.NAME}-ok", f"expected {method.NAME}-ok, got {item}"
        return item

    def arrived(self, *, channel: int = 1) -> list[Method | Message]:
        """Take what has already been read for a channel. Nothing is awaited: ask for something first."""
        return self._inbox.take_all(channel)

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

    def expect_gone(self) -> list[Method | Message]:
        """Await the end of the connection, by FIN or by RST; return what came before it, over all channels.

        A connection.close is answered, so that the peer need not wait.
        """
        deadline = time.monotonic() + TIMEOUT_SECONDS
        answered = False
        try:
            while True:
                self._read(deadline)
                if not answered and any(isinstance(item, ConnectionClose) for item in self._inbox.everything()):
                    self.send(ConnectionCloseOk(), channel=0)
                    answered = True
        except (EOFError, ConnectionError):
            return self._inbox.everything()

    def await_heartbeats(self, count: int) -> None:
        """Return when so many heartbeats have come since the connection began."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.heartbeats < count:
            self._read(deadline)

    def receive_raw(self, size: int) -> bytes:
        """Return `size` bytes as they come; for what is no frame."""
        data = b""
        while len(data) < size:
            data += self._receive_some(time.monotonic() + TIMEOUT_SECONDS)
        return data

    def finish(self) -> None:
        """Say that nothing more will be sent; receiving goes on."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Drop the socket without a word."""
        self._socket.close()

    def _read(self, deadline: float) -> None:
        for frame in self._reader.feed(self._receive_some(deadline)):
            self._inbox.put(frame)

    def _receive_some(self, deadline: float) -> bytes:
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        data = self._socket.recv(1 << 18)
        if not data:
            raise EOFError("the peer closed the socket")
        return data
