"""HTTP clients, and how many there may be.

A connection is a task. It is busy while it answers a user with valid credentials who takes the answer; else it waits:
for a request, because an answer is held back, or until a client takes one. Their number is limited: at the limit some
of the waiting connections are closed, and new ones are accepted as soon as there is room. Those without credentials are
closed first, from the addresses that have most of them, the oldest first. One address has no more than a part of the
connections: at its limit its own waiting ones are closed, and new ones where none waits. So a client that says nothing,
sends a byte at a time or reads nothing keeps no other out for long, and an answer that is being taken is never cut off.
Every other step has a time limit.

The work of answers is shared out by address, a part of an answer at a time, and no part is begun before the client has
taken the last one.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Iterable
from functools import partial
from operator import attrgetter

import trio

from broker.config import HttpSettings
from broker.management.work_slots import WorkSlots
from broker.server.http.asgi_exchange import Application
from broker.server.http.http_connection import HttpConnection
from broker.server.net.listeners import accept_forever
from broker.server.net.tls_context import Security
from broker.session.peer import Peer

log = logging.getLogger("leveret.http")

ROOM_PART = 0.75
"""To how many of the connections that there may be those are reduced that wait."""


ADDRESS_PART = 0.75
"""How many of the connections that there may be one address may have."""
WORKED_ON, WORKED_ON_OF_ADDRESS = 4, 1
"""How many answers are worked on at a time, and of one address: a list or a scrape is up to seconds of work. Whoever
else asks has his turn after one part of each."""


class WebServer:
    """Connections by HTTP, and how many there may be."""

    def __init__(self, settings: HttpSettings, application: Application, nursery: trio.Nursery) -> None:
        self._settings = settings
        self._application = application
        self._nursery = nursery
        self._slots = WorkSlots(WORKED_ON, WORKED_ON_OF_ADDRESS)
        self.connections: dict[HttpConnection, None] = {}
        self._of_address = Counter[str]()

    def listen(self, listener: socket.socket, security: Security | None) -> None:
        """Take clients in on a socket, until it is closed."""
        accept = partial(self._accept, security)
        self._nursery.start_soon(accept_forever, listener, accept, self._has_capacity)

    def _has_capacity(self) -> bool:
        most = self._settings.connections_max
        if len(self.connections) < most:
            return True
        waiting = _dispensable_first(each for each in self.connections if not each.busy)
        for each in waiting[: len(self.connections) - int(most * ROOM_PART)]:
            log.warning("closing HTTP connection %s: connection limit reached, and it is idle", each.peer)
            each.drop()
        return False

    def _room_at(self, peer: Peer) -> bool:
        """The client's address may have another connection; at its limit its own waiting ones are closed for it."""
        most = max(1, int(self._settings.connections_max * ADDRESS_PART))
        if self._of_address[peer.host] < most:
            return True
        own = _dispensable_first(each for each in self.connections if each.peer.host == peer.host and not each.busy)
        dropped = own[: max(1, most - int(most * ROOM_PART))]
        for each in dropped:
            log.warning("closing HTTP connection %s: its address has %d connections, and it is idle", each.peer, most)
            each.drop()
        if not dropped:
            log.warning("refusing HTTP connection %s: its address has %d connections, none idle", peer, most)
        return bool(dropped)

    def _accept(self, security: Security | None, sock: socket.socket, peer: Peer) -> None:
        if not self._room_at(peer):
            sock.close()
            return
        stream: trio.abc.Stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        if security is not None:
            stream = trio.SSLStream(stream, security.context, server_side=True)
        connection = HttpConnection(stream, peer, self._settings, self._application, self._slots)
        self.connections[connection] = None
        self._of_address[peer.host] += 1
        self._nursery.start_soon(self._serve, connection, security)

    async def _serve(self, connection: HttpConnection, security: Security | None) -> None:
        try:
            if security is not None:
                async with security.handshake_step:  # one handshake step in each turn of the event loop
                    await trio.lowlevel.checkpoint()
            await connection.serve()
        except Exception:
            log.exception("error on HTTP connection %s", connection.peer)
        finally:
            del self.connections[connection]
            self._of_address -= Counter([connection.peer.host])


def _dispensable_first(waiting: Iterable[HttpConnection]) -> list[HttpConnection]:
    """The order in which they are closed: first without credentials, of those first with many from one address."""
    seen: Counter[str] = Counter()
    rank: dict[HttpConnection, int] = {}
    for each in sorted(waiting, key=attrgetter("since"), reverse=True):
        seen[each.peer.host] += 1
        rank[each] = seen[each.peer.host]
    return sorted(rank, key=lambda each: (each.admitted, -rank[each], each.since))
