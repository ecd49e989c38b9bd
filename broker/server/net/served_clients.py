"""The AMQP clients of a broker: takes connections in, serves each until it has gone, and closes them all at a stop."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from broker.entities.scheduling.invariants import BrokenInvariant
from broker.server.engine import Engine
from broker.server.net import listeners, local_connections
from broker.server.net.bound_listeners import Listeners
from broker.server.net.heartbeats import beat_forever
from broker.server.net.replaceable_parts import ReplaceableParts
from broker.server.net.tls_context import Security
from broker.server.net.tls_transport import SecureTransport
from broker.server.net.transport import Transport
from broker.session.peer import Peer
from broker.session.registry import Registry
from broker.wire.field_tables import Table

if TYPE_CHECKING:
    from broker.config import LimitsSettings

log = logging.getLogger("leveret.server")


class ServedClients:
    """The connections of one broker. At most `connections_max` are served; more clients wait to be accepted."""

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        parts: ReplaceableParts,
        limits: LimitsSettings,
        connections_max: int,
        nursery: trio.Nursery,
    ) -> None:
        self.registry = registry
        self.connections_max = connections_max
        self.transports: dict[Transport, None] = {}
        self._engine = engine
        self._nursery = nursery
        self._take_in = parts.take_in
        self._settings = parts.transport(limits.handshake_timeout_seconds)
        self._handshakes_max = min(limits.handshakes_max, connections_max // 2)
        self._full = False
        self._empty: trio.Event | None = None

    def listen(self, bound: Listeners) -> None:
        """Accept clients, and watch heartbeats from now on."""
        self._nursery.start_soon(beat_forever, self.transports, self._engine)
        if self._settings.sockets is not None:
            self._nursery.start_soon(self._settings.sockets.run)
        for listener in bound.plain:
            self._accept_from(listener, self._accept)
        if bound.security is not None:
            for listener in bound.secured:
                self._accept_from(listener, partial(self._accept_tls, bound.security))

    def _accept_from(self, listener: socket.socket, accept: Callable[[socket.socket, Peer], None]) -> None:
        self._nursery.start_soon(listeners.accept_forever, listener, accept, self._has_capacity)

    @property
    def unhandled_bytes(self) -> int:
        """Bytes of input that lie behind the held methods of blocked publishers."""
        return sum(each.frames.unhandled_bytes for each in self.transports if each.connection.held_bytes)

    @property
    def full(self) -> bool:
        """True if no more client is accepted."""
        return len(self.transports) >= self.connections_max

    def _has_capacity(self) -> bool:
        """Return whether one more connection may be accepted; if not, close those in the handshake or ended."""
        full = self.full
        if full and not self._full:
            log.error("connection limit reached (%d, from the open-files limit); not accepting", len(self.transports))
        self._full = full
        if full:
            self._drop_handshaking(0.9)
            self._dismiss()
        return not full

    def _dismiss(self) -> None:
        """Close the sockets that clients keep open after connection.close-ok."""
        for transport in self.transports:
            transport.dismiss()

    def _drop_handshaking(self, part: float = 1.0) -> None:
        """Close connections in the handshake, oldest first, beyond `part` of the limit."""
        handshaking = self.registry.handshaking
        while len(handshaking) > self._handshakes_max * part:
            oldest = next(iter(handshaking))
            text = "closing connection %s: too many connections in the handshake (limits.handshakes_max)"
            log.warning(text, oldest.peer, extra=oldest.log_fields())
            handshaking.pop(oldest)()

    def _accept(self, sock: socket.socket, peer: Peer) -> None:
        taken = self._take_in(sock, peer)
        if taken is not None:
            self.serve_transport(self.transport(taken, peer))

    def _accept_tls(self, security: Security, sock: socket.socket, peer: Peer) -> None:
        taken = self._take_in(sock, peer)
        if taken is not None:
            self.serve_transport(self.transport(taken, peer, security))

    def admit(self, sock: socket.socket, vhost: str, properties: Table) -> None:
        """Serve a socket as an AMQP connection that may do anything: its peer has come by the administration socket."""
        sock.setblocking(False)
        local_connections.admit(self, sock, vhost, None, properties)

    def transport(self, sock: socket.socket, peer: Peer, security: Security | None = None) -> Transport:
        """Return a transport for a socket, which is not served yet; with `security` one with TLS."""
        shared = self.registry, self._engine, self._engine.committer, self._settings, self._nursery
        if security is None:
            return Transport(sock, peer, *shared)
        return SecureTransport(sock, peer, *shared, security)

    def serve_transport(self, transport: Transport) -> None:
        """Serve a client until it has gone."""
        assert transport not in self.transports, f"{transport.connection.peer} is served already"
        self.transports[transport] = None
        self._drop_handshaking()
        self._nursery.start_soon(self._serve, transport)

    async def _serve(self, transport: Transport) -> None:
        try:
            await transport.serve()
        except BrokenInvariant:
            raise
        except Exception:
            connection = transport.connection
            log.exception("error on connection %s", connection.peer, extra=connection.log_fields())
        finally:
            self.transports.pop(transport, None)
            if self._empty is not None and not self.transports:
                self._empty.set()

    async def close(self, text: str, seconds: float) -> None:
        """Close all connections with 320 CONNECTION_FORCED and a text, and wait for clients at most `seconds`."""
        self.registry.close_connections(text)
        self._engine.end_turn()
        self._dismiss()
        with trio.move_on_after(seconds):
            while self.transports:
                self._empty = trio.Event()
                await self._empty.wait()
        for transport in list(self.transports):
            transport.abort()
