"""The HTTP applications: the management API with the web page, and metrics, each on addresses of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

import trio

from broker import __version__
from broker.admin.administration import Administration
from broker.config import Config
from broker.management.application import application
from broker.management.management_api import ApiSettings, ManagementApi
from broker.management.rows.node_rows import node_figures
from broker.management.segment_files import SegmentFiles
from broker.management.statistics.history import StatisticsHistory
from broker.server.http.asgi_exchange import Application, Message, Receive, Send
from broker.server.http.probes import probed
from broker.server.http.web_sites import WebSites
from broker.session.registry import Registry

METRICS = "broker.management.prometheus.registries"


class HttpServices:
    """The applications of a broker, and their sites."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        administration: Administration,
        nursery: trio.Nursery,
        unready: Callable[[], str],
        disk_hangs: Callable[[], str],
    ) -> None:
        """Start the history of statistics. `unready`: the reason why AMQP clients are not accepted, or nothing;
        `disk_hangs`: the write that the disk does not answer, or nothing."""
        self._look_around = administration.process.look_around
        segments = SegmentFiles(config.events_directory, config.http.reads_max)
        settings = management_settings(config)
        history = StatisticsHistory(registry, partial(node_figures, administration), rates_mode=settings.rates_mode)
        nursery.start_soon(history.run)
        administration.statistics = history
        self.management = ManagementApi(registry, administration, segments, settings, history)
        self._per_object_by_default = config.prometheus.return_per_object_metrics
        self._metrics: Application | None = None
        scraped = probed(unready, disk_hangs, self._answer_scrape)
        self.sites = WebSites(config, application(self.management), scraped, nursery)

    async def _answer_scrape(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a scrape. Modules of metrics are loaded with the first one: a broker without scrapes saves 2 MiB."""
        self._look_around()
        if self._metrics is None:
            await trio.to_thread.run_sync(import_module, METRICS)
            from broker.management.prometheus.metrics_application import MetricsApplication
            from broker.management.prometheus.registries import Registries

            registries = Registries(self.management, per_object_by_default=self._per_object_by_default)
            self._metrics = MetricsApplication(registries)
        await self._metrics(scope, receive, send)


def management_settings(config: Config) -> ApiSettings:
    """Return the settings that the API needs."""
    management = config.management
    return ApiSettings(
        node=config.identity.shown_node_name,
        version=config.identity.version,
        product_version=__version__,
        rates_mode=management.rates_mode,
        path_prefix=management.path_prefix,
        body_bytes_max=config.http.body_bytes_max,
        cors_origins=management.cors_allow_origins,
        cors_max_age_seconds=management.cors_max_age_seconds,
        certificate_file=config.tls.certificate_file,
        ca_file=config.tls.ca_file,
    )
