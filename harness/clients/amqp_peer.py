"""A client's end of an AMQP connection without I/O: bytes in, methods and messages out, and the way back.

Three transports move its bytes: a blocking socket (wire_client.py), the broker's session layer in memory
(session_client.py), and sockets that do not wait (trio's in brokers/broker_server.py, a selector's in
bench/load/unblocked_connection.py, a simulated one in tests/simulation). A caller that breaks the protocol on purpose
uses the lower half alone: `FrameReader`, `Login.at_once` and frames made by hand.

It is built on the broker's own codec, which tests/unit/wire checks against literal bytes. It says nothing of its own
accord, no acknowledgement, no heartbeat, no reply to a close, except in a handshake that was begun with `begin`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker.wire.constants import FRAME_BODY, FRAME_END, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from broker.wire.field_tables import from_python
from broker.wire.frames import FRAME_OVERHEAD, FRAME_START, PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    DECODERS,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import BasicProperties, body_size, decode_properties, encode_header

FRAME_MAX = 131072
CHANNEL_MAX = 2047
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class UnexpectedFrame(AssertionError):
    """The broker sent what the protocol does not allow, or something else than was awaited."""


class Frame(NamedTuple):
    """One frame without its end octet."""

    kind: int
    channel: int
    payload: bytes


class FrameReader:
    """Cuts a byte stream into frames, and keeps what is not a whole frame yet."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. Raises UnexpectedFrame for a wrong end octet."""
        data, at, frames = self._rest + data, 0, []
        while len(data) - at >= FRAME_START.size:
            kind, channel, size = FRAME_START.unpack_from(data, at)
            start = at + FRAME_START.size
            if start + size >= len(data):
                break
            if data[start + size] != FRAME_END:
                raise UnexpectedFrame(f"a frame of type {kind} ends in {data[start + size]:#04x}")
            frames.append(Frame(kind, channel, data[start : start + size]))
            at = start + size + 1
        self._rest = data[at:]
        return frames


class Message(NamedTuple):
    """A method that came with content: basic.deliver, basic.return or basic.get-ok."""

    method: Any
    header: bytes
    body: bytes

    @property
    def properties(self) -> BasicProperties:
        return decode_properties(self.header)


Item = Method | Message
"""An item received on a channel: a method, or a method with its content."""


@dataclass(frozen=True)
class Login:
    """A client's answers in the handshake: as guest, accepting what the server proposes, heartbeats off.

    `response` replaces what user and password make, `tune` the whole connection.tune-ok; `heartbeat` is in seconds.
    """

    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    mechanism: str = "PLAIN"
    response: bytes | None = None
    capabilities: Mapping[str, bool] = field(default_factory=lambda: CAPABILITIES)
    heartbeat: int = 0
    tune: ConnectionTuneOk | None = None

    def start_ok(self) -> ConnectionStartOk:
        """The answer to connection.start."""
        properties = from_python({"capabilities": self.capabilities})
        response = f"\0{self.user}\0{self.password}".encode() if self.response is None else self.response
        return ConnectionStartOk(properties, self.mechanism, response, "en_US")

    def tune_ok(self, channel_max: int = CHANNEL_MAX, frame_max: int = FRAME_MAX) -> ConnectionTuneOk:
        """The answer to connection.tune, which proposed these limits."""
        return self.tune or ConnectionTuneOk(channel_max, frame_max, self.heartbeat)

    def open(self) -> ConnectionOpen:
        """Return the method that opens the connection."""
        return ConnectionOpen(self.vhost)

    def at_once(self) -> tuple[bytes, bytes, bytes, bytes]:
        """The whole handshake for a client that awaits no answer: header, start-ok, tune-ok, open."""
        start_ok, tune_ok, opening = (
            method_frame(0, method) for method in (self.start_ok(), self.tune_ok(), self.open())
        )
        return PROTOCOL_HEADER, start_ok, tune_ok, opening


class AmqpPeer:
    """One connection. Received items wait by channel; `decode` gives it in the order of arrival instead.

    Checks what a server owes: known methods in their canonical encoding, content in one piece per channel, no frame
    over the negotiated size, and the answers of a handshake in their order. Raises UnexpectedFrame otherwise.
    """

    def __init__(self) -> None:
        self.frame_max = FRAME_MAX
        """Bytes of the largest frame; 0: no limit."""
        self.heartbeats = 0
        self.server_start: ConnectionStart | None = None
        self.server_tune: ConnectionTune | None = None
        self._reader = FrameReader()
        self._contents: dict[int, Message] = {}
        self._items: dict[int, deque[Item]] = {}
        self._handshake: Generator[tuple[bytes, type[Method]], Any, None] | None = None
        self._awaited: type[Method] = ConnectionStart
        self._output = b""

    # The handshake

    @property
    def handshaking(self) -> bool:
        """A handshake was begun, and not all of its answers have come."""
        return self._handshake is not None

    def begin(self, login: Login, channels: Iterable[int] = ()) -> None:
        """Begin the handshake, to open these channels at its end: send `take_output` for as long as it goes on."""
        self._handshake = self._steps(login, channels)
        self._output, self._awaited = next(self._handshake)

    def take_output(self) -> bytes:
        """Return the handshake's next bytes."""
        output, self._output = self._output, b""
        return output

    def _steps(self, login: Login, channels: Iterable[int]) -> Generator[tuple[bytes, type[Method]], Any, None]:
        """Yield bytes to send, and the method that has to come back before the next step."""
        self.server_start = yield PROTOCOL_HEADER, ConnectionStart
        tune = self.server_tune = yield method_frame(0, login.start_ok()), ConnectionTune
        answer = login.tune_ok(tune.channel_max, tune.frame_max)
        self.frame_max = answer.frame_max
        yield method_frames(0, answer, login.open()), ConnectionOpenOk
        for channel in channels:
            yield method_frame(channel, ChannelOpen()), ChannelOpenOk

    def _advance(self, item: Item) -> None:
        assert self._handshake is not None
        if not isinstance(item, self._awaited):
            raise UnexpectedFrame(f"expected {self._awaited.NAME}, got {item}")
        try:
            self._output, self._awaited = self._handshake.send(item)
        except StopIteration:
            self._handshake = None

    # In

    def receive(self, data: bytes) -> None:
        """Take in what has arrived, to be taken by channel."""
        for channel, item in self.decode(data):
            self._items.setdefault(channel, deque()).append(item)

    def decode(self, data: bytes) -> list[tuple[int, Item]]:
        """The channels and items that are whole now, in their order; those of a handshake go to the handshake."""
        return list(self._decoded(data))

    def _decoded(self, data: bytes) -> Iterator[tuple[int, Item]]:
        for frame in self._reader.feed(data):
            item = self._taken(frame)
            if item is not None and self._handshake is not None:
                self._advance(item)
            elif item is not None:
                yield frame.channel, item

    def take(self, channel: int) -> Item | None:
        """The oldest item of a channel, or None."""
        items = self._items.get(channel)
        return items.popleft() if items else None

    def take_all(self, channel: int) -> list[Item]:
        """Every item of a channel."""
        return list(self._items.pop(channel, ()))

    def everything(self) -> list[Item]:
        """Every item of every channel, left where it is; the lowest channel first."""
        return [item for _, items in sorted(self._items.items()) for item in items]

    def _taken(self, frame: Frame) -> Item | None:
        """The item that a frame ends, if it ends one."""
        if self.frame_max and len(frame.payload) > self.frame_max - FRAME_OVERHEAD:
            raise UnexpectedFrame(f"a frame of {len(frame.payload)} bytes, {self.frame_max} were negotiated")
        if frame.kind == FRAME_HEARTBEAT:
            self.heartbeats += 1
            return None
        if frame.kind != FRAME_METHOD:
            return self._content(frame)
        if frame.channel in self._contents:
            raise UnexpectedFrame(f"a method interrupts the content of {self._contents[frame.channel].method}")
        method = DECODERS[int.from_bytes(frame.payload[:4], "big")](frame.payload)
        if method.encode() != frame.payload:
            raise UnexpectedFrame(f"{method} is not {frame.payload!r}")
        if not method.HAS_CONTENT:
            return method
        self._contents[frame.channel] = Message(method, b"", b"")
        return None

    def _content(self, frame: Frame) -> Message | None:
        if frame.channel not in self._contents:
            raise UnexpectedFrame(f"a frame of type {frame.kind} without a method on channel {frame.channel}")
        method, header, body = self._contents.pop(frame.channel)
        if frame.kind != (FRAME_BODY if header else FRAME_HEADER):
            raise UnexpectedFrame(f"a frame of type {frame.kind} in the content of {method}")
        message = Message(method, header or frame.payload, body + frame.payload if header else b"")
        missing = body_size(message.header) - len(message.body)
        if missing < 0:
            raise UnexpectedFrame(f"{-missing} bytes more than the header of {method} says")
        if missing:
            self._contents[frame.channel] = message
            return None
        return message


# Out


def method_frames(channel: int, *methods: Method) -> bytes:
    """The frames of methods."""
    return b"".join(method_frame(channel, method) for method in methods)


def message_frames(channel: int, method: Method, header: bytes, body: bytes, frame_max: int = FRAME_MAX) -> bytes:
    """The frames of a method with content."""
    return method_frame(channel, method) + content_frames(channel, header, body, frame_max)


def publish_frames(
    body: bytes,
    *,
    exchange: str = "",
    key: str = "",
    mandatory: bool = False,
    persistent: bool = False,
    channel: int = 1,
    frame_max: int = FRAME_MAX,
    **properties: Any,
) -> bytes:
    """The frames of basic.publish. `headers` may be a plain dictionary."""
    if properties.get("headers") is not None:
        properties["headers"] = from_python(properties["headers"])
    if persistent:
        properties["delivery_mode"] = 2
    header = encode_header(len(body), BasicProperties(**properties))
    return message_frames(channel, BasicPublish(exchange, key, mandatory, False), header, body, frame_max)
