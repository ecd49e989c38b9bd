"""HTTP connections, and limits of their number.

A connection is a task. It is *busy* while it answers a request with valid credentials and the client reads the answer;
otherwise it is *idle*: it waits for a request, for the delay of a refusal, or for the client to read. At the limit of
connections some idle ones are closed: first those without credentials, from the addresses with most of them, oldest
first. One address may have a part of the connections: at its limit its own idle ones are closed, and new ones are
refused if none is idle. So a client that sends nothing, sends a byte at a time or reads nothing keeps nobody out for
long, and an answer that is being read is never cut off. Every other step has a time limit.

The work on answers is shared by address, one part of an answer at a time, and no part is begun before the client has
read the last one.
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
from broker.server.http.prompt_stream import PromptStream
from broker.server.net.listeners import accept_forever
from broker.server.net.tls_context import Security
from broker.session.peer import Peer

log = logging.getLogger("leveret.http")

KEPT_PART = 0.75
"""At the limit idle connections are closed until this part of `connections_max` is left."""


ADDRESS_PART = 0.75
"""Part of `connections_max` that one address may have."""
WORKED_ON, WORKED_ON_OF_ADDRESS = 4, 1
"""Answers worked on at a time, in all and for one address: a list or a scrape may be seconds of work. Other requests
get their turn after one part of each."""


class WebServer:
    """The HTTP connections of one application, within their limits."""

    def __init__(self, settings: HttpSettings, application: Application, nursery: trio.Nursery) -> None:
        self._settings = settings
        self._application = application
        self._nursery = nursery
        self._slots = WorkSlots(WORKED_ON, WORKED_ON_OF_ADDRESS)
        self.connections: dict[HttpConnection, None] = {}
        self._of_address = Counter[str]()

    def listen(self, listener: socket.socket, security: Security | None) -> None:
        """Accept clients on a socket until it is closed."""
        accept = partial(self._accept, security)
        self._nursery.start_soon(accept_forever, listener, accept, self._has_capacity)

    def _has_capacity(self) -> bool:
        most = self._settings.connections_max
        if len(self.connections) < most:
            return True
        waiting = _dispensable_first(each for each in self.connections if not each.busy)
        for each in waiting[: len(self.connections) - int(most * KEPT_PART)]:
            log.warning("closing HTTP connection %s: connection limit reached, and it is idle", each.peer)
            each.drop()
        return False

    def _address_has_capacity(self, peer: Peer) -> bool:
        """Return whether the client's address may have one more connection; at its limit its idle ones are closed."""
        most = max(1, int(self._settings.connections_max * ADDRESS_PART))
        if self._of_address[peer.host] < most:
            return True
        own = _dispensable_first(each for each in self.connections if each.peer.host == peer.host and not each.busy)
        dropped = own[: max(1, most - int(most * KEPT_PART))]
        for each in dropped:
            log.warning("closing HTTP connection %s: its address has %d connections, and it is idle", each.peer, most)
            each.drop()
        if not dropped:
            log.warning("refusing HTTP connection %s: its address has %d connections, none idle", peer, most)
        return bool(dropped)

    def _accept(self, security: Security | None, sock: socket.socket, peer: Peer) -> None:
        if not self._address_has_capacity(peer):
            sock.close()
            return
        stream: trio.abc.Stream = PromptStream(sock)
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
    """Sort idle connections by the order in which they are closed: those without credentials first, of these the ones
    from addresses with most of them, oldest first."""
    seen: Counter[str] = Counter()
    rank: dict[HttpConnection, int] = {}
    for each in sorted(waiting, key=attrgetter("since"), reverse=True):
        seen[each.peer.host] += 1
        rank[each] = seen[each.peer.host]
    return sorted(rank, key=lambda each: (each.admitted, -rank[each], each.since))
