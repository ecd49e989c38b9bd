"""What operators ask of the process that the broker runs in, and change of it while it runs."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import msgspec

from broker import logs
from broker.config import Config
from broker.credentials import without_credentials
from broker.server import resource_alarms
from broker.server.engine import Activity
from broker.server.event_log import Events
from broker.server.net.tls_context import Security
from broker.server.resource_alarms import ResourceWatch
from broker.session.login import certificate_names
from broker.session.registry import Registry
from broker.wire.amqp_errors import DecodeError

PURPOSES = {
    "amqp": "AMQP 0-9-1",
    "amqp/ssl": "AMQP 0-9-1 over TLS",
    "http": "HTTP API",
    "https": "HTTP API over TLS (HTTPS)",
    "http/prometheus": "Prometheus exporter API over HTTP",
}
"""What clients find behind a protocol, in RabbitMQ's words but for AMQP 1.0, which is not spoken here."""

Addresses = dict[str, list[tuple[str, int]]]
"""Where each protocol is listened for."""


class NodeControl:
    """The process, as commands see it: `broker.admin.administration.Process`."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        resources: ResourceWatch,
        activity: Activity,
        addresses: Callable[[], Addresses],
    ) -> None:
        self._activity = activity
        self.node_name = config.identity.shown_node_name
        self.memory_total = resource_alarms.memory_total()
        self._config = config
        self._registry = registry
        self._resources = resources
        self._addresses = addresses
        self.security: Security | None = None
        """What TLS is spoken with, where it is."""
        self.events: Events | None = None
        """The event log, where there is one."""

    def look_around(self) -> None:
        """Have alarms as they must be now."""
        if self._activity.turn_ended.awaited is not None:
            self._resources.check_memory()
            self._resources.check_disk()
            self._activity.turn_ended.happened()

    def settings(self) -> dict[str, Any]:
        """The settings by section, without secrets."""
        sections: dict[str, Any] = without_credentials(msgspec.to_builtins(self._config))
        return sections

    def listeners(self) -> list[dict[str, Any]]:
        """Where clients come in."""
        return [
            {
                "node": self.node_name,
                "interface": f"[{host}]" if ":" in host else host,
                "port": port,
                "protocol": protocol,
                "purpose": PURPOSES[protocol],
            }
            for protocol, addresses in self._addresses().items()
            for host, port in addresses
        ]

    def certificates(self) -> list[dict[str, Any]]:
        """The certificate that clients are shown."""
        if self.security is None:
            return []
        certificate, file = self.security.certificate, self._config.tls.certificate_file
        try:
            until = certificate_names.valid_until(certificate)
            return [{"file": file, "subject": certificate_names.subject(certificate), "until": until.timestamp()}]
        except DecodeError:
            return []  # a form that OpenSSL knows and we do not

    def limit_memory(self, fraction: float | None, size: int) -> None:
        """Publishers wait from now on above this fraction of all memory or, where it is None, above this size."""
        self._resources.limit_memory(fraction, size)

    def limit_disk(self, size: int) -> None:
        """Publishers wait from now on below so much free disk."""
        self._resources.limit_disk(size)

    def log_level(self, level: str) -> None:
        """Log from this level on."""
        logging.getLogger().setLevel(logging.CRITICAL + 1 if level == "none" else level.upper())

    def log_form(self, form: str) -> None:
        """Write the log as `text` or as `json`."""
        logs.set_form(form)

    def log_files(self) -> list[str]:
        """Where the log goes."""
        handlers = logging.getLogger().handlers
        return [getattr(handler, "baseFilename", "<stderr>") for handler in handlers]

    async def seal_events(self) -> bool:
        """Have readers of the event log see what has happened so far; False where there is no log."""
        if self.events is not None:
            await self.events.seal()
        return self.events is not None

    def stop(self) -> None:
        """Have the process end as on SIGTERM."""
        os.kill(os.getpid(), signal.SIGTERM)
