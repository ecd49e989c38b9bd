"""Listeners by protocol, and the services on the HTTP listeners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from broker.entities.arguments.personality import Series

PROTOCOLS = {
    "listeners": "amqp",
    "tls_listeners": "amqp/ssl",
    "http_listeners": "http",
    "https_listeners": "https",
    "metrics_listeners": "http/prometheus",
}
"""RabbitMQ's names of the protocols, by the keys of the status."""


def listeners(status: Mapping[str, Any], node: str, series: Series) -> list[dict[str, Any]]:
    """All addresses that are listened on."""
    rows: list[dict[str, Any]] = [
        {"node": node, "protocol": protocol, "ip_address": host, "port": int(port), "socket_opts": {}}
        for key, protocol in PROTOCOLS.items()
        for host, port in _addresses(status, key)
    ]
    if series >= (4, 0):
        for row in rows:
            row["tls"] = row["protocol"] in ("amqp/ssl", "https")
    return sorted(rows, key=lambda row: (row["protocol"], row["port"]))


def contexts(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The services on the HTTP listeners. The port is a text, as in RabbitMQ."""
    rows = []
    for key, description in (
        ("http_listeners", "RabbitMQ Management"),
        ("https_listeners", "RabbitMQ Management"),
        ("metrics_listeners", "RabbitMQ Prometheus"),
    ):
        for host, port in _addresses(status, key):
            row = {"description": description, "path": "/", "ip": host, "port": port, "cowboy_opts": "[]"}
            if key == "metrics_listeners":
                row["protocol"] = "'http/prometheus'"  # as Erlang writes the name
            rows.append(row | ({"ssl": "true"} if key == "https_listeners" else {}))
    return rows


def _addresses(status: Mapping[str, Any], key: str) -> Iterator[tuple[str, str]]:
    for address in status[key]:
        host, _, port = address.rpartition(":")
        yield host.strip("[]"), port
