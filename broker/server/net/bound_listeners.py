"""The listening sockets of a broker, all together."""

from __future__ import annotations

import socket
from typing import NamedTuple

import msgspec
import trio

from broker.config import Address, Config
from broker.server.net.tls_context import Security


class Listeners(NamedTuple):
    """The listening sockets, for AMQP and HTTP, and the certificates of those with TLS."""

    plain: list[socket.socket]
    secured: list[socket.socket]
    management: list[socket.socket]
    management_tls: list[socket.socket]
    prometheus: list[socket.socket]
    security: Security | None

    @property
    def http(self) -> list[socket.socket]:
        return self.management + self.management_tls + self.prometheus

    def close(self) -> None:
        """Close the sockets that are open yet, which ends their accept tasks."""
        for listener in self.plain + self.secured + self.http:
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
