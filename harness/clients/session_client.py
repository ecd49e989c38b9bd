"""A client's side of a conversation with the session layer alone: bytes in, bytes out, no socket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.entities.node.users import Permission, User
from broker.session.connection import Connection
from broker.session.input.incoming_frames import IncomingFrames
from broker.session.login.passwords import SHA256, hash_password
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from broker.wire.method import Method
from broker.wire.methods import ConfirmSelect
from harness.brokers.broker_core import Core
from harness.clients.amqp_peer import (
    CAPABILITIES,
    AmqpPeer,
    Login,
    Message,
    UnexpectedFrame,
    method_frames,
    publish_frames,
)
from harness.clients.shorthand import get

PEER = Peer("127.0.0.1", 50000, "127.0.0.1", 5672, loopback=True)


class SessionLayer:
    """A broker core with sessions: everything but sockets, threads and time."""

    def __init__(self, core: Core, settings: SessionSettings | None = None) -> None:
        self.core = core
        core.broker.users.by_name["guest"] = User("guest", hash_password(b"guest"), SHA256, ("administrator",))
        core.broker.users.permissions["/", "guest"] = Permission(".*", ".*", ".*")
        self.registry = Registry(core.broker, settings or SessionSettings())
        core.broker.alarms.observe(self._unblock)

    def client(self, peer: Peer = PEER) -> SessionClient:
        """A client that has connected and said nothing yet."""
        return SessionClient(self, peer)

    def connect(self, *, capabilities: Mapping[str, bool] = CAPABILITIES, channels: int = 1) -> SessionClient:
        """A client that is through the handshake and has opened channels 1 to `channels`."""
        client = self.client()
        client.shake_hands(Login(capabilities=capabilities), range(1, channels + 1))
        return client

    def _unblock(self) -> None:
        if not self.core.broker.alarms.raised:
            for connection in list(self.registry.connections):
                connection.unblock()


class SessionClient:
    """One connection. With `reading` set to False the client takes nothing that is sent to it.

    With `heeding` set to False it takes everything and looks at nothing, which is cheap where much comes.
    """

    def __init__(self, sessions: SessionLayer, peer: Peer = PEER) -> None:
        self.sessions = sessions
        self.peer = AmqpPeer()
        self.reading = True
        self.heeding = True
        self.connection = Connection(sessions.registry, peer, self._flushed)
        self.frames = IncomingFrames(self.connection)
        self.feed: Callable[[bytes], None] = self.frames.receive

    def shake_hands(self, login: Login | None = None, channels: Iterable[int] = ()) -> None:
        """The whole handshake, as guest unless told otherwise, and the channels opened."""
        self.peer.begin(login or Login(), channels)
        while self.peer.handshaking:
            output = self.peer.take_output()
            if not output:
                raise UnexpectedFrame("the broker answers nothing")
            self.say(output)

    # Out

    def say(self, data: bytes, *, chunk: int = 1 << 20) -> None:
        """Send bytes, in chunks of a size, and let the broker end its turn after each."""
        for start in range(0, max(1, len(data)), chunk):
            self.feed(data[start : start + chunk])
            while self.frames.unfinished and not self.connection.ended:
                self.sessions.core.end_turn()
                self.feed(b"")
            self.sessions.core.end_turn()
            self.connection.check()

    def send(self, *methods: Method, channel: int = 1) -> None:
        """Send methods in one piece."""
        self.say(method_frames(channel, *methods))

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
        return self.peer.take_all(channel)

    def expect_one(self, *, channel: int = 1) -> Any:
        """The only thing that has come on a channel."""
        items = self.received(channel=channel)
        assert len(items) == 1, items
        return items[0]

    def ask(self, method: Method, *, channel: int = 1) -> Any:
        """Send a method and return its answer."""
        self.send(method, channel=channel)
        return self.expect_one(channel=channel)

    def drain(self, queue: str, *, channel: int = 1) -> list[bytes]:
        """Take everything out of a queue without acknowledgements: the bodies, in order."""
        taken = []
        while isinstance(item := self.ask(get(queue, no_ack=True), channel=channel), Message):
            taken.append(item.body)
        return taken

    def drop(self) -> None:
        """The socket is gone."""
        self.connection.release()
        self.sessions.core.end_turn()

    def _flushed(self) -> None:
        if self.reading:
            output = self.connection.output.take()
            if self.heeding:
                self._take(output)
            self.connection.output.unsent(0)

    def _take(self, data: bytes) -> None:
        self.peer.receive(data)
