"""The two sites of a broker or a standby: the management API with the web page, and metrics with probes."""

from __future__ import annotations

import socket

import trio

from broker.config import Config
from broker.management.host_names import HostNames
from broker.server.http.asgi_exchange import Application
from broker.server.http.http_server import WebServer
from broker.server.net.tls_context import Security


class WebSites:
    """An application for each site, each with a server; the limits of section `[http]` hold for each."""

    def __init__(self, config: Config, management: Application, prometheus: Application, nursery: trio.Nursery) -> None:
        self._names = HostNames(config.management.host_names, socket.gethostname())
        self._management = WebServer(config.http, self._names.guarded(management), nursery)
        self._prometheus = WebServer(config.http, self._names.guarded(prometheus), nursery)

    def listen_management(self, listener: socket.socket, security: Security | None) -> None:
        """Serve the API and the web page on a socket."""
        self._names.listen_on(*listener.getsockname()[:2])
        self._management.listen(listener, security)

    def listen_prometheus(self, listener: socket.socket, security: Security | None) -> None:
        """Serve metrics and probes on a socket."""
        self._names.listen_on(*listener.getsockname()[:2])
        self._prometheus.listen(listener, security)

    def close_connections(self) -> None:
        """Close all connections at once."""
        for site in (self._management, self._prometheus):
            for connection in site.connections:
                connection.drop()
