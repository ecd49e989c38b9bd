"""`rabbitmqctl stop_app` and `start_app`: all that clients reach is closed, the process and its stores stay; then the
broker starts again in this process, on the same ports, as from the data directory."""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec
import trio

from broker.config import Address, Config
from storage.ship.place_owner import Fenced

if TYPE_CHECKING:
    from broker.server.http.http_services import HttpServices
    from broker.server.server import Listeners


log = logging.getLogger("leveret.server")

Addresses = dict[str, list[tuple[str, int]]]
"""Addresses by protocol."""


class StoppableApplication:
    """The listeners and clients of a broker; `stopped`: there are none, until the broker starts again."""

    def __init__(self, addresses: Callable[[], Addresses], close_clients: Callable[[], Awaitable[None]]) -> None:
        """`close_clients` returns when clients and shovels are gone."""
        self.stopped = False
        self.addresses = addresses
        self.starts_again = trio.CancelScope()
        """Cancelled when the broker is to end, and to start again in this process."""
        self.fenced: Fenced | None = None
        """The reason why the broker ends for good, if another one serves in its place."""
        self.http: HttpServices | None = None
        self._close_clients = close_clients
        self._bound: Listeners | None = None

    def listens_on(self, bound: Listeners) -> None:
        """Note the sockets that clients connect to."""
        self._bound = bound

    async def stop(self) -> None:
        """Close the listeners, and the connections with 320 CONNECTION_FORCED; nothing if that is done."""
        if self.stopped or self._bound is None:
            return
        self.stopped = True
        close_listeners(self._bound)
        for listened in self.addresses().values():
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


def close_listeners(bound: Listeners) -> None:
    """Close the sockets that are open yet, which ends their accept tasks."""
    for listener in bound.all:
        if listener.fileno() >= 0:
            trio.lowlevel.notify_closing(listener)
            listener.close()


def with_ports(config: Config, bound: Listeners) -> Config:
    """Return the settings with the ports that the system chose, so that a next start listens there again."""
    server, tls, management, prometheus = config.server, config.tls, config.management, config.prometheus
    replace = msgspec.structs.replace
    return replace(
        config,
        server=replace(server, listen=_chosen(server.listen, bound.plain)),
        tls=replace(tls, listen=_chosen(tls.listen, bound.secured)),
        management=replace(
            management,
            listen=_chosen(management.listen, bound.management),
            tls_listen=_chosen(management.tls_listen, bound.management_tls),
        ),
        prometheus=replace(prometheus, listen=_chosen(prometheus.listen, bound.prometheus)),
    )


def _chosen(listen: tuple[str, ...], bound: list[socket.socket]) -> tuple[str, ...]:
    """Return the addresses as they are, or those of the sockets if one of them leaves the port to the system."""
    if not any(text.endswith(":0") for text in listen):
        return listen
    return tuple(str(Address(*listener.getsockname()[:2])) for listener in bound)
