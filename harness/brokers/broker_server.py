"""The broker's server inside a test: the real engine, committer and transports, over pairs of connected sockets.

Both ends live in one trio run, so a test may look at the broker's side of a conversation, and with trio's autojump
clock waiting takes no time.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import trio.testing

from broker.entities.vhosts.users import Permission, User
from broker.server.committer import CommitLimits, Committer
from broker.server.engine import Engine
from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import SecureTransport
from broker.server.net.transport import Transport, TransportSettings
from broker.session.connection import Connection
from broker.session.login.passwords import SHA256, hash_password
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from broker.wire.field_tables import from_python
from broker.wire.frames import PROTOCOL_HEADER, method_frame
from broker.wire.method import Method
from broker.wire.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from harness.brokers.broker_core import Core
from harness.brokers.definitions_in_memory import RecordedDefinitions
from harness.clients.frame_cutter import FrameReader
from harness.clients.wire_client import CAPABILITIES, Inbox, Message

STEP_SECONDS = 0.005
DEADLINE_SECONDS = 30.0
PEER = Peer("127.0.0.1", 50000, "127.0.0.1", 5672, loopback=True)
BACKLOG = CommitLimits(batches_max=4, lazy_bytes_max=1 << 19)
SOCKET_BYTES = 64 * 1024


async def eventually(look: Callable[[], object], what: str) -> None:
    """Look again and again until what is seen is true; what a thread or a socket does is announced by nobody."""
    with trio.move_on_after(DEADLINE_SECONDS) as scope:
        while not look():  # noqa: ASYNC110
            await trio.sleep(STEP_SECONDS)
    assert not scope.cancelled_caught, f"not within {DEADLINE_SECONDS:g} s: {what}"


async def let_pass(seconds: float) -> None:
    """Let time go by that costs none: only with trio's mock clock, which jumps ahead when everybody waits."""
    assert isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock), "this would be a real wait"
    await trio.sleep_until(trio.current_time() + seconds)


class Station:
    """A server without listeners. `settings` and `limits` hold for the callers that come after they were set."""

    def __init__(self, core: Core, nursery: trio.Nursery, session: SessionSettings) -> None:
        self.core = core
        self.nursery = nursery
        broker = self.core.broker
        broker.users.by_name["guest"] = User("guest", hash_password(b"guest"), SHA256, ("administrator",))
        broker.users.permissions["/", "guest"] = Permission(".*", ".*", ".*")
        self.registry = Registry(broker, session)
        self.disk_full: list[bool] = []
        self.committer = Committer(broker, self.core.store, self.disk_full.append, BACKLOG)
        self.engine = Engine(broker, self.core.store, self.committer, lazy_flush_seconds=0.01)
        self.committer.after_commit = self.engine.end_turn
        self.limits = TransportSettings(handshake_timeout=10.0)
        self.transports: list[Transport] = []
        self.callers: list[Caller] = []

    def connect(self, security: Security | None = None) -> Caller:
        """Somebody connects, and says nothing yet; with `security` it is TLS that the broker expects."""
        theirs, ours = socket.socketpair()
        for end in (theirs, ours):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        transport = self._transport(ours, security)
        self.transports.append(transport)
        self.nursery.start_soon(transport.serve)
        caller = Caller(trio.SocketStream(trio.socket.from_stdlib_socket(theirs)), transport.connection)
        self.callers.append(caller)
        return caller

    def _transport(self, ours: socket.socket, security: Security | None) -> Transport:
        shared = self.registry, self.engine, self.committer, self.limits, self.nursery
        if security is None:
            return Transport(ours, PEER, *shared)
        return SecureTransport(ours, PEER, *shared, security)

    async def join(self, *, heartbeat: int = 0) -> Caller:
        """Somebody who is through the handshake and has channel 1 open."""
        caller = self.connect()
        await caller.shake_hands(heartbeat=heartbeat)
        return caller


@asynccontextmanager
async def station(
    directory: Path,
    session: SessionSettings | None = None,
    definitions: RecordedDefinitions | None = None,
    *,
    check_invariants: bool = True,
) -> AsyncIterator[Station]:
    """A station that is running; at the end everything gathered is on disk."""
    async with trio.open_nursery() as nursery:
        core = Core(directory, definitions=definitions, check_invariants=check_invariants)
        place = Station(core, nursery, session or SessionSettings())
        place.committer.start(())
        nursery.start_soon(place.engine.run)
        try:
            yield place
            for transport in place.transports:
                transport.abort()
            for caller in place.callers:
                caller.socket.close()
            with trio.CancelScope(shield=True):
                await place.committer.finish()
        finally:
            nursery.cancel_scope.cancel()
    place.core.close()


class Caller:
    """A client of a station. What has arrived waits, by channel, until it is asked for."""

    def __init__(self, stream: trio.SocketStream, connection: Connection) -> None:
        self.stream: trio.abc.Stream = stream
        self.socket = stream.socket
        self.connection = connection
        self._reader = FrameReader()
        self.inbox = Inbox()

    async def shake_hands(self, *, heartbeat: int = 0) -> None:
        """The whole handshake, as guest, and channel 1."""
        await self.say(PROTOCOL_HEADER)
        assert isinstance(await self.receive(channel=0), ConnectionStart)
        properties = from_python({"capabilities": CAPABILITIES})
        await self.send(ConnectionStartOk(properties, "PLAIN", b"\0guest\0guest", "en_US"), channel=0)
        tune = await self.receive(channel=0)
        assert isinstance(tune, ConnectionTune)
        await self.send(ConnectionTuneOk(tune.channel_max, tune.frame_max, heartbeat), channel=0)
        await self.send(ConnectionOpen("/"), channel=0)
        assert isinstance(await self.receive(channel=0), ConnectionOpenOk)
        await self.send(ChannelOpen())
        assert isinstance(await self.receive(), ChannelOpenOk)

    async def say(self, data: bytes) -> None:
        """Send bytes; returns when the broker's side has taken them, or its socket's buffer has."""
        await self.stream.send_all(data)

    async def send(self, *methods: Method, channel: int = 1) -> None:
        await self.say(b"".join(method_frame(channel, method) for method in methods))

    async def ask(self, method: Method, *, channel: int = 1) -> Any:
        """Send a method and return the next thing that comes."""
        await self.send(method, channel=channel)
        return await self.receive(channel=channel)

    async def receive(self, *, channel: int = 1) -> Method | Message:
        """The next thing on a channel. Raises EOFError when the broker has closed the socket."""
        with trio.fail_after(DEADLINE_SECONDS):
            while (item := self.inbox.take(channel)) is None:
                await self._read()
        return item

    async def until_gone(self) -> list[Method | Message]:
        """Read until the broker closes the socket; what came before, over all channels."""
        try:
            while True:
                await self._read()
        except EOFError:
            return self.inbox.everything()

    async def _read(self) -> None:
        try:
            data = await self.stream.receive_some(1 << 16)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise EOFError("the broker closed the socket")
        for frame in self._reader.feed(bytes(data)):
            self.inbox.put(frame)
