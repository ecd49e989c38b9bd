"""Health checks of a running broker, each by itself, for `leveret health` and `rabbitmq-diagnostics`."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.commands.node_admin import ListCertificates

Ask = Callable[[AdminCommand], Any]
"""Has the broker carry out a command."""

SECONDS = {"days": 86_400, "weeks": 604_800, "months": 2_592_000, "years": 31_536_000}
"""The units that certificates are looked ahead in; a month has 30 days, a year 365."""

ALIASES = {
    "amqp091": "amqp",
    "amqp0.9.1": "amqp",
    "amqp0-9-1": "amqp",
    "amqps": "amqp/ssl",
    "amqp091s": "amqp/ssl",
    "amqp/tls": "amqp/ssl",
    "management": "http",
    "http/ssl": "https",
    "http/tls": "https",
    "prometheus": "http/prometheus",
    "http_prometheus": "http/prometheus",
}
"""Other names by which a protocol may be asked for."""

CONNECT_SECONDS = 5.0
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses at which a listener on all interfaces is reached from here."""


def protocol_of(name: str) -> str:
    """Return RabbitMQ's name of a protocol that has several."""
    return ALIASES.get(name.lower(), name.lower())


def unreachable(listeners: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The listeners that do not take a TCP connection."""
    return [listener for listener in listeners if not _connects(listener)]


def _connects(listener: Mapping[str, Any]) -> bool:
    host = listener["interface"].strip("[]")
    try:
        with socket.create_connection((WILDCARDS.get(host, host), listener["port"]), CONNECT_SECONDS):
            return True
    except OSError:
        return False


def expiring(ask: Ask, within: int, unit: str) -> list[Mapping[str, Any]]:
    """Return the certificates in use that expire within a number of days, weeks, months or years."""
    limit = time.time() + within * SECONDS[unit]
    return [certificate for certificate in ask(ListCertificates()) if certificate["until"] < limit]
