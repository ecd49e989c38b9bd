"""A client that says what it is told and is strict about what it hears."""

from __future__ import annotations

from typing import TypeVar

from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.peer import Peer
from broker.wire.amqp_errors import REPLY_TEXT_BYTES_MAX
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    DECODERS,
    BasicDeliver,
    BasicGetOk,
    ChannelClose,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import body_size, decode_properties
from harness.clients.frame_cutter import Frame, FrameReader
from harness.clients.session_client import Party
from harness.clients.wire_client import CAPABILITIES

PEER = Peer("127.0.0.1", 50000, "127.0.0.1", 5672, loopback=True)
FRAME_MAX = 4096
AnyMethod = TypeVar("AnyMethod", bound=Method)


class Listener:
    """One connection.

    `heard` has the methods that came, `tags` what was delivered, by channel; `closed_channels` wait for an answer.
    """

    def __init__(self, party: Party) -> None:
        self._party = party
        self.connection = Connection(party.registry, PEER, self._flushed)
        self._frames = IncomingFrames(self.connection)
        self.reading = True
        self.heard: list[tuple[int, Method]] = []
        self.bodies: list[bytes] = []
        self._reader = FrameReader()
        self._partial: dict[int, tuple[Method, bytes, bytes]] = {}
        self.tags: dict[int, list[int]] = {}
        self.closed_channels: list[int] = []
        self.sent_away = False
        self._started = False

    # Out

    def say(self, data: bytes) -> None:
        """Send bytes as one piece; the broker ends its turns."""
        self._frames.receive(data)
        while self._frames.unfinished and not self.connection.ended:
            self._party.core.end_turn()
            self._frames.receive(b"")
        self._party.core.end_turn()
        self.connection.check()

    def ask(self, method: Method, answer: type[AnyMethod], *, channel: int = 1) -> AnyMethod:
        """Send a method; the answer, which must be of this kind."""
        self.say(method_frame(channel, method))
        place, heard = self.heard.pop()
        assert (place, type(heard)) == (channel, answer), heard
        assert isinstance(heard, answer)
        return heard

    def shake_hands(self) -> None:
        """The whole handshake, as guest, with small frames."""
        self.say(PROTOCOL_HEADER)
        assert isinstance(self.heard.pop()[1], ConnectionStart)
        properties = from_python({"capabilities": CAPABILITIES})
        login = ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US")
        tune = self.ask(login, ConnectionTune, channel=0)
        self.say(method_frame(0, ConnectionTuneOk(tune.channel_max, FRAME_MAX, 0)))
        self.ask(ConnectionOpen("/"), ConnectionOpenOk, channel=0)

    def open_channel(self, number: int) -> None:
        """Open a channel."""
        self.ask(ChannelOpen(), ChannelOpenOk, channel=number)

    def read_on(self) -> None:
        """Take what waited while nothing was read."""
        self.reading = True
        self._flushed()
        self._party.core.end_turn()

    def drop(self) -> None:
        """The socket is gone."""
        self.connection.release()
        self.connection.ended = True
        self._party.core.end_turn()
        self._flushed()

    # In

    def _flushed(self) -> None:
        output = self.connection.output
        if not self.reading:
            return
        for frame in self._reader.feed(self._without_header(output.take())):
            self._take(frame)
        output.unsent(0)

    def _without_header(self, data: bytes) -> bytes:
        """Whoever opened with something else than the protocol hears its header, and nothing further."""
        if data and not self._started:
            self._started = True
            return data.removeprefix(PROTOCOL_HEADER)
        return data

    def _take(self, frame: Frame) -> None:
        assert len(frame.payload) <= self.connection.frame_max - 8, "a frame over the negotiated size"
        if frame.kind == FRAME_HEARTBEAT:
            return
        if frame.kind != FRAME_METHOD:
            self._take_content(frame)
            return
        assert frame.channel not in self._partial, "a method interrupts content"
        method = DECODERS[int.from_bytes(frame.payload[:4], "big")](frame.payload)
        assert method.encode() == frame.payload
        self._note(frame.channel, method)
        if method.HAS_CONTENT:
            self._partial[frame.channel] = (method, b"", b"")
        else:
            self.heard.append((frame.channel, method))

    def _note(self, channel: int, method: Method) -> None:
        """Remember what a client has to answer, or may."""
        if isinstance(method, ChannelClose | ConnectionClose):
            assert len(method.reply_text.encode("utf-8", "surrogateescape")) <= REPLY_TEXT_BYTES_MAX
        if isinstance(method, ConnectionClose):
            self.sent_away = True
        elif isinstance(method, ChannelClose):
            self.closed_channels.append(channel)
            self.tags.pop(channel, None)
        elif isinstance(method, BasicDeliver | BasicGetOk):
            self.tags.setdefault(channel, []).append(method.delivery_tag)

    def _take_content(self, frame: Frame) -> None:
        method, header, body = self._partial.pop(frame.channel)
        if frame.kind == FRAME_HEADER:
            assert not header, "a second header"
            header = frame.payload
            decode_properties(header)
        else:
            assert frame.kind == FRAME_BODY
            assert header, "a body before its header"
            body += frame.payload
        missing = body_size(header) - len(body)
        assert missing >= 0, "more body than was announced"
        if missing:
            self._partial[frame.channel] = (method, header, body)
        else:
            assert isinstance(method, BasicDeliver | BasicGetOk) or method.NAME == "basic.return"
            self.heard.append((frame.channel, method))
            self.bodies.append(body)
