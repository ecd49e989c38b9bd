"""The broker's process for administration commands: its settings, listeners, limits and log."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

import msgspec

from broker import logs
from broker.admin.protocol import AdministrationError
from broker.config import Config
from broker.credentials import without_credentials
from broker.server import resource_alarms
from broker.server.engine import Activity
from broker.server.event_log import Events
from broker.server.net.tls_context import Security
from broker.server.offline.backup_directory import BackupDirectory
from broker.server.resource_alarms import ResourceWatch
from broker.server.shipping.running_shipping import RunningShipping
from broker.server.stoppable_application import StoppableApplication
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
"""RabbitMQ's description of each protocol, without AMQP 1.0, which is not supported here."""


class NodeControl:
    """The process as commands see it: `broker.admin.administration.Process`."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        resources: ResourceWatch,
        activity: Activity,
        application: StoppableApplication,
    ) -> None:
        self._application = application
        self._activity = activity
        self.backups = BackupDirectory(config.backup)
        self.node_name = config.identity.shown_node_name
        self.memory_total = resource_alarms.memory_total()
        self._config = config
        self._registry = registry
        self._resources = resources
        self.security: Security | None = None
        """The certificates, if TLS is on."""
        self.events: Events | None = None
        """The event log, if it is on."""
        self.shipping: RunningShipping | None = None
        """Shipping, while the broker runs."""

    def look_around(self) -> None:
        """Bring the alarms up to date: an idle broker does not check its resources."""
        if self._activity.turn_ended.awaited is not None:
            self._resources.check_memory()
            self._resources.check_disk()
            self._activity.turn_ended.happened()

    def settings(self) -> dict[str, Any]:
        """The settings by section, without secrets."""
        sections: dict[str, Any] = without_credentials(msgspec.to_builtins(self._config))
        return sections

    def listeners(self) -> list[dict[str, Any]]:
        """Return the listeners as RabbitMQ describes them."""
        return [
            {
                "node": self.node_name,
                "interface": f"[{host}]" if ":" in host else host,
                "port": port,
                "protocol": protocol,
                "purpose": PURPOSES[protocol],
            }
            for protocol, addresses in self._application.addresses.items()
            for host, port in addresses
        ]

    def certificates(self) -> list[dict[str, Any]]:
        """Return the broker's own certificate, if it has one that we can read."""
        if self.security is None:
            return []
        certificate, file = self.security.certificate, self._config.tls.certificate_file
        try:
            until = certificate_names.valid_until(certificate)
            return [{"file": file, "subject": certificate_names.subject(certificate), "until": until.timestamp()}]
        except DecodeError:
            return []  # OpenSSL reads some forms of certificates that we do not

    def limit_memory(self, fraction: float | None, size: int) -> None:
        """Set the memory limit: a fraction of all memory or, if that is None, a size in bytes."""
        self._resources.limit_memory(fraction, size)

    def limit_disk(self, size: int) -> None:
        """Set the least free disk space, in bytes."""
        self._resources.limit_disk(size)

    def hold_alarm(self, resource: str, *, on: bool) -> None:
        """Keep the alarm of a resource raised, or let it follow the resource again."""
        self._resources.hold(resource, on=on)

    def monitor_disk(self, *, on: bool) -> None:
        """Check the free disk space, or leave the disk alarm as it is."""
        self._resources.monitor_disk(on=on)

    def log_level(self, level: str) -> None:
        """Set the level of the log; `none` switches it off."""
        logging.getLogger().setLevel(logging.CRITICAL + 1 if level == "none" else level.upper())

    def log_form(self, form: str) -> None:
        """Write the log as `text` or as `json`."""
        logs.set_form(form)

    def log_files(self) -> list[str]:
        """Return the log's files, `<stderr>` for standard error."""
        handlers = logging.getLogger().handlers
        return [getattr(handler, "baseFilename", "<stderr>") for handler in handlers]

    async def seal_events(self) -> bool:
        """Make all events so far visible to readers of the event log; False if there is no event log."""
        if self.events is not None:
            await self.events.seal()
        return self.events is not None

    async def ship_to(self, place: str) -> None:
        """Ship both stores to a second place until the broker stops."""
        await self._running_shipping().begin(place)

    async def ship_off(self) -> None:
        """End what `ship_to` has begun."""
        await self._running_shipping().end()

    def _running_shipping(self) -> RunningShipping:
        if self.shipping is None:
            raise AdministrationError("refused", "the broker is starting")
        return self.shipping

    @property
    def application_stopped(self) -> bool:
        """True if `stop_application` was the last word."""
        return self._application.stopped

    async def stop_application(self) -> None:
        """Close all listeners and connections; the process and its stores stay."""
        await self._application.stop()

    def start_application(self) -> None:
        """Start the broker again, in this process."""
        self._application.start()

    def stop(self) -> None:
        """Stop the broker as on SIGTERM."""
        os.kill(os.getpid(), signal.SIGTERM)
