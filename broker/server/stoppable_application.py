"""`rabbitmqctl stop_app` and `start_app`: all that clients reach is closed, the process and its stores stay; then the
broker starts again in this process, on the same ports, as from the data directory."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from broker.server.net.bound_listeners import Listeners
from storage.ship.place_owner import Fenced

if TYPE_CHECKING:
    from broker.server.http.web_sites import WebSites

log = logging.getLogger("leveret.server")

PROTOCOLS = ("amqp", "amqp/ssl", "http", "https", "http/prometheus")
"""RabbitMQ's names of what clients speak to."""


class StoppableApplication:
    """The listeners and clients of a broker; `stopped`: there are none, until the broker starts again."""

    def __init__(self, close_clients: Callable[[], Awaitable[None]]) -> None:
        """`close_clients` returns when clients and shovels are gone."""
        self.stopped = False
        self.addresses: dict[str, list[tuple[str, int]]] = {protocol: [] for protocol in PROTOCOLS}
        """Addresses that are listened on, by protocol."""
        self.starts_again = trio.CancelScope()
        """Cancelled when the broker is to end, and to start again in this process."""
        self.fenced: Fenced | None = None
        """The reason why the broker ends for good, if another one serves in its place."""
        self.http: WebSites | None = None
        self._close_clients = close_clients
        self._bound: Listeners | None = None

    def listens_on(self, bound: Listeners) -> None:
        """Note the sockets that clients connect to; those for HTTP are not served yet."""
        self._bound = bound
        self.addresses["amqp"] += [listener.getsockname()[:2] for listener in bound.plain]
        self.addresses["amqp/ssl"] += [listener.getsockname()[:2] for listener in bound.secured]

    async def stop(self) -> None:
        """Close the listeners, and the connections with 320 CONNECTION_FORCED; nothing if that is done."""
        if self.stopped or self._bound is None:
            return
        self.stopped = True
        self._bound.close()
        for listened in self.addresses.values():
            listened.clear()
        if self.http is not None:
            self.http.close_connections()
        await self._close_clients()

    def start(self) -> None:
        """Let the broker end and start again; nothing unless it was stopped."""
        if self.stopped:
            self.starts_again.cancel()

    def end_fenced(self, error: Fenced) -> None:
        """Let the broker stop in order, and not start again: another one serves in its place."""
        log.error("stopping: %s", error)
        self.fenced = error
        self.starts_again.cancel()
