"""A client's side of a conversation with the session layer alone: bytes in, bytes out, no socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.entities.vhosts.users import Permission, User
from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.login.passwords import SHA256, hash_password
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from broker.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER, content_frames, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    DECODERS,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from broker.wire.properties import BasicProperties, body_size, encode_header
from harness.brokers.broker_core import Core
from harness.clients.frame_cutter import FrameReader
from harness.clients.wire_client import CAPABILITIES, Message

PEER = Peer("127.0.0.1", 50000, "127.0.0.1", 5672, loopback=True)


class Party:
    """A broker core with sessions: everything but sockets, threads and time."""

    def __init__(self, core: Core, settings: SessionSettings | None = None) -> None:
        self.core = core
        core.broker.users.by_name["guest"] = User("guest", hash_password(b"guest"), SHA256, ("administrator",))
        core.broker.users.permissions["/", "guest"] = Permission(".*", ".*", ".*")
        self.registry = Registry(core.broker, settings or SessionSettings())
        core.broker.alarms.observe(self._unblock)

    def caller(self, peer: Peer = PEER) -> Conversation:
        """Somebody who has connected and said nothing yet."""
        return Conversation(self, peer)

    def join(self, *, capabilities: dict[str, bool] | None = None, channels: int = 1) -> Conversation:
        """Somebody who is through the handshake and has opened channels 1 to `channels`."""
        caller = self.caller()
        caller.shake_hands(capabilities=capabilities)
        for number in range(1, channels + 1):
            caller.send(ChannelOpen(), channel=number)
            assert isinstance(caller.expect_one(channel=number), ChannelOpenOk)
        return caller

    def _unblock(self) -> None:
        if not self.core.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()


class Conversation:
    """One connection. With `reading` set to False the client takes nothing that is sent to it."""

    def __init__(self, party: Party, peer: Peer = PEER) -> None:
        self.party = party
        self.connection = Connection(party.registry, peer, self._flushed)
        self.reading = True
        self.frames = IncomingFrames(self.connection)
        self.feed: Callable[[bytes], None] = self.frames.receive
        self._reader = FrameReader()
        self._items: dict[int, list[Any]] = {}
        self._partial: dict[int, tuple[Method, bytes, bytes]] = {}
        self.raw = b""

    def shake_hands(self, *, capabilities: dict[str, bool] | None = None) -> None:
        """The whole handshake, as guest."""
        self.say(PROTOCOL_HEADER)
        assert isinstance(self.expect_one(channel=0), ConnectionStart)
        properties = from_python({"capabilities": CAPABILITIES if capabilities is None else capabilities})
        self.send(ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US"), channel=0)
        tune = self.expect_one(channel=0)
        assert isinstance(tune, ConnectionTune)
        self.send(
            ConnectionTuneOk(tune.channel_max, tune.frame_max, 0),
            ConnectionOpen("/"),
            channel=0,
        )
        assert isinstance(self.expect_one(channel=0), ConnectionOpenOk)

    # Out

    def say(self, data: bytes, *, chunk: int = 1 << 20) -> None:
        """Send bytes, in chunks of a size, and let the broker end its turn after each."""
        for start in range(0, len(data), chunk):
            self.feed(data[start : start + chunk])
            while self.frames.unfinished and not self.connection.ended:
                self.party.core.end_turn()
                self.feed(b"")
            self.party.core.end_turn()
            self.connection.check()

    def send(self, *methods: Method, channel: int = 1) -> None:
        """Send methods in one piece."""
        self.say(b"".join(method_frame(channel, method) for method in methods))

    def publish(self, body: bytes, *, channel: int = 1, **how: Any) -> None:
        """Publish a message: see `publish_frames`."""
        self.say(publish_frames(body, channel=channel, **how))

    def confirm(self, *, channel: int = 1) -> None:
        """Switch to confirm mode."""
        self.send(ConfirmSelect(False), channel=channel)
        assert self.expect_one(channel=channel).NAME == "confirm.select-ok"

    # In

    def received(self, *, channel: int = 1) -> list[Any]:
        """Everything that has come on a channel since last asked: methods, and Messages for those with content."""
        return self._items.pop(channel, [])

    def expect_one(self, *, channel: int = 1) -> Any:
        """The only thing that has come on a channel."""
        items = self.received(channel=channel)
        assert len(items) == 1, items
        return items[0]

    def ask(self, method: Method, *, channel: int = 1) -> Any:
        """Send a method and return its answer."""
        self.send(method, channel=channel)
        return self.expect_one(channel=channel)

    def drop(self) -> None:
        """The socket is gone."""
        self.connection.release()
        self.party.core.end_turn()

    def _flushed(self) -> None:
        if self.reading:
            self._take(self.connection.output.take())
            self.connection.output.unsent(0)

    def _take(self, data: bytes) -> None:
        self.raw += data
        for frame in self._reader.feed(data):
            if frame.kind == FRAME_METHOD:
                method = DECODERS[int.from_bytes(frame.payload[:4], "big")](frame.payload)
                if method.HAS_CONTENT:
                    self._partial[frame.channel] = (method, b"", b"")
                else:
                    self._items.setdefault(frame.channel, []).append(method)
            elif frame.kind in (FRAME_HEADER, FRAME_BODY):
                self._take_content(frame.kind, frame.channel, frame.payload)

    def _take_content(self, kind: int, channel: int, payload: bytes) -> None:
        method, header, body = self._partial.pop(channel)
        header, body = (payload, body) if kind == FRAME_HEADER else (header, body + payload)
        if len(body) < body_size(header):
            self._partial[channel] = (method, header, body)
        else:
            self._items.setdefault(channel, []).append(Message(method, header, body))


def publish_frames(
    body: bytes,
    *,
    exchange: str = "",
    key: str = "",
    mandatory: bool = False,
    persistent: bool = False,
    channel: int = 1,
    frame_max: int = 131072,
    **properties: Any,
) -> bytes:
    """The frames of basic.publish. `headers` may be a plain dictionary."""
    if "headers" in properties:
        properties["headers"] = from_python(properties["headers"])
    if persistent:
        properties["delivery_mode"] = 2
    header = encode_header(len(body), BasicProperties(**properties))
    method = BasicPublish(exchange, key, mandatory, False)
    return method_frame(channel, method) + content_frames(channel, header, body, frame_max)
