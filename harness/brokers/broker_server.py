"""The broker's server inside a test: the real engine, committer and transports, over pairs of connected sockets.

Both ends live in one trio run, so a test may look at the broker's side of a conversation, and with trio's autojump
clock waiting takes no time.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import trio
import trio.testing

from broker.entities.node.broker import Pace
from broker.entities.node.users import Permission, User
from broker.server.commits.commit_policy import CommitLimits
from broker.server.engine import Engine, Wakeup
from broker.server.net.replaceable_parts import transport_settings
from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import SecureTransport
from broker.server.net.transport import Transport
from broker.session.connection import Connection
from broker.session.login.passwords import SHA256, hash_password
from broker.session.registry import Registry
from broker.session.session_settings import SessionSettings
from broker.wire.method import Method
from harness.brokers.broker_core import Core, HandClock
from harness.brokers.definitions_in_memory import RecordedDefinitions
from harness.clients.amqp_peer import AmqpPeer, Item, Login, method_frames
from harness.clients.session_client import PEER

STEP_SECONDS = 0.005
DEADLINE_SECONDS = 30.0
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


class TrioClock(HandClock):
    """Time that passes as trio's does. With time standing still a timer would never be due, and waited for for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._began = trio.current_time()

    def now(self) -> int:
        return self.time + int((trio.current_time() - self._began) * 1000)


class BrokerServer:
    """A server without listeners. `settings` and `limits` hold for the clients that come after they were set.

    Each of its turns takes `turn_seconds` of processor time, which only a test sets, and none is cut short for the time
    that it takes: a machine that is busy or collects garbage adds no pause to what a test measures with trio's autojump
    clock.
    """

    def __init__(self, core: Core, wakeup: Wakeup, nursery: trio.Nursery, session: SessionSettings) -> None:
        self.core = core
        self.nursery = nursery
        broker = self.core.broker
        broker.users.by_name["guest"] = User("guest", hash_password(b"guest"), SHA256, ("administrator",))
        broker.users.permissions["/", "guest"] = Permission(".*", ".*", ".*")
        self.registry = Registry(broker, session)
        self.disk_full: list[bool] = []
        self.reclaimed: list[int] = []
        self.turn_seconds = self._processor_seconds = 0.0
        self.engine = Engine(
            broker,
            self.core.store,
            wakeup,
            BACKLOG,
            lazy_flush_seconds=0.01,
            on_full=self.disk_full.append,
            on_reclaimed=self.reclaimed.extend,
            turn_clock=self._turn_clock,
        )
        self.committer = self.engine.committer
        self.limits = transport_settings(10.0)
        if self.limits.sockets is not None:
            nursery.start_soon(self.limits.sockets.run)
        self.transports: list[Transport] = []
        self.clients: list[ServerClient] = []

    def _turn_clock(self) -> float:
        self._processor_seconds += self.turn_seconds
        return self._processor_seconds

    def client(self, security: Security | None = None) -> ServerClient:
        """A client that has connected and said nothing yet; with `security` it is TLS that the broker expects."""
        theirs, ours = socket.socketpair()
        for end in (theirs, ours):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        transport = self._transport(ours, security)
        self.transports.append(transport)
        self.nursery.start_soon(transport.serve)
        client = ServerClient(trio.SocketStream(trio.socket.from_stdlib_socket(theirs)), transport.connection)
        self.clients.append(client)
        return client

    def _transport(self, ours: socket.socket, security: Security | None) -> Transport:
        shared = self.registry, self.engine, self.committer, self.limits, self.nursery
        if security is None:
            return Transport(ours, PEER, *shared)
        return SecureTransport(ours, PEER, *shared, security)

    async def connect(self, *, heartbeat: int = 0) -> ServerClient:
        """A client that is through the handshake and has channel 1 open."""
        client = self.client()
        await client.shake_hands(heartbeat=heartbeat)
        return client


@asynccontextmanager
async def serving(
    directory: Path,
    session: SessionSettings | None = None,
    definitions: RecordedDefinitions | None = None,
    *,
    check_invariants: bool = True,
) -> AsyncIterator[BrokerServer]:
    """A server that is running; at the end everything buffered is on disk."""
    async with trio.open_nursery() as nursery:
        wakeup = Wakeup()
        pace = Pace(wakeup.call, inf, inf)
        core = Core(directory, definitions=definitions, pace=pace, clock=TrioClock(), check_invariants=check_invariants)
        server = BrokerServer(core, wakeup, nursery, (session or SessionSettings())._replace(turn_seconds=inf))
        server.committer.start(())
        nursery.start_soon(server.engine.run)
        try:
            yield server
            for transport in server.transports:
                transport.abort()
            for client in server.clients:
                client.socket.close()
            with trio.CancelScope(shield=True):
                await server.committer.finish()
        finally:
            nursery.cancel_scope.cancel()
    server.core.close()


class ServerClient:
    """A client of the server in the same trio run. Received items wait, by channel, until they are asked for."""

    def __init__(self, stream: trio.SocketStream, connection: Connection) -> None:
        self.stream: trio.abc.Stream = stream
        self.socket = stream.socket
        self.connection = connection
        self.peer = AmqpPeer()

    async def shake_hands(self, *, heartbeat: int = 0) -> None:
        """The whole handshake, as guest, and channel 1."""
        self.peer.begin(Login(heartbeat=heartbeat), (1,))
        while self.peer.handshaking:
            await self.say(self.peer.take_output())
            with trio.fail_after(DEADLINE_SECONDS):
                await self._read()

    async def say(self, data: bytes) -> None:
        """Send bytes; returns when the broker's side has taken them, or its socket's buffer has."""
        await self.stream.send_all(data)

    async def send(self, *methods: Method, channel: int = 1) -> None:
        await self.say(method_frames(channel, *methods))

    async def ask(self, method: Method, *, channel: int = 1) -> Any:
        """Send a method and return the next thing that comes."""
        await self.send(method, channel=channel)
        return await self.receive(channel=channel)

    async def receive(self, *, channel: int = 1) -> Item:
        """The next thing on a channel. Raises EOFError when the broker has closed the socket."""
        with trio.fail_after(DEADLINE_SECONDS):
            while (item := self.peer.take(channel)) is None:
                await self._read()
        return item

    async def until_gone(self) -> list[Item]:
        """Read until the broker closes the socket; what came before, over all channels."""
        try:
            while True:
                await self._read()
        except EOFError:
            return self.peer.everything()

    async def _read(self) -> None:
        try:
            data = await self.stream.receive_some(1 << 16)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            raise EOFError("the broker closed the socket")
        self.peer.receive(bytes(data))
