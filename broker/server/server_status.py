"""The status of a running broker, as `leveret status` shows it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from broker import __version__
from broker.admin.administration import TESTING_ON
from broker.admin.node import process_facts
from broker.config import Address
from broker.entities.scheduling.alarms import DISK, MEMORY
from broker.process_memory import memory_used
from broker.server.start.start_line import CORE

if TYPE_CHECKING:
    from broker.server.server import Server

LISTENERS = {
    "listeners": "amqp",
    "tls_listeners": "amqp/ssl",
    "http_listeners": "http",
    "https_listeners": "https",
    "metrics_listeners": "http/prometheus",
}
"""Names of the listeners in the status, and their protocols."""


def server_status(server: Server) -> dict[str, Any]:
    """Return a broker's status. Sizes are bytes, times seconds."""
    server.loop_metrics.gather()
    messages, shipping = server.stores.messages, server.control.shipping
    shipped = None if shipping is None else shipping.state()
    return {
        **_process(server),
        **{name: _texts(server.application.addresses[protocol]) for name, protocol in LISTENERS.items()},
        **_resources(server),
        "messages": messages.statistics()._asdict(),
        "store_io": messages.io.sums()._asdict(),
        **({} if shipped is None else {"ship": shipped}),
    }


def _process(server: Server) -> dict[str, Any]:
    config = server.config
    return {
        "version": __version__,
        "core": CORE,
        "rabbitmq_version": config.identity.version,
        "node": server.control.node_name,
        "pid": os.getpid(),
        "uptime_seconds": round(time.time() - server.started, 1),
        "data_directory": str(config.server.directory.absolute()),
        **({"testing": TESTING_ON} if config.testing.enabled else {}),
        "log_files": server.control.log_files(),
        "cluster_name": server.registry.cluster_name,
        "boot": server.broker.boot,
    }


def _resources(server: Server) -> dict[str, Any]:
    alarms, files, clients = server.broker.alarms, process_facts.open_files(), server.clients
    resources = server.resources
    return {
        "sockets": {"used": len(clients.transports), "limit": clients.connections_max},
        "file_descriptors": {"used": -1 if files is None else files, "limit": process_facts.open_files_limit()},
        "alarms": [name for name in (MEMORY, DISK) if alarms.is_raised(name)],
        "memory": {
            "used_bytes": memory_used(),
            "limit_bytes": resources.memory_limit,
            "high_watermark": resources.memory_setting,
        },
        "disk": {
            "free_bytes": server.stores.messages.space.room_bytes(),
            "limit_bytes": resources.disk_free_limit,
            "hangs": server.disk_watch.hangs(),
            "pending_seconds": server.disk_watch.pending_seconds(),
        },
    }


def _texts(addresses: list[tuple[str, int]]) -> list[str]:
    """Return addresses as the settings have them."""
    return [str(Address(*address)) for address in addresses]
