"""The objects that all requests to the API share: broker, administration, settings, statistics and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.entities.arguments.personality import Series
from broker.management.insight.trace_subscriptions import TraceSubscriptions
from broker.management.json_bodies import RequestBodies
from broker.management.segment_files import SegmentFiles
from broker.management.statistics.history import StatisticsHistory
from broker.session.registry import Registry


class ApiSettings(NamedTuple):
    """The settings that the API works with, and shows.

    `version` is the RabbitMQ version whose behaviour is claimed; `product_version` is the broker's own.
    """

    node: str
    version: str
    product_version: str
    rates_mode: str
    path_prefix: str
    body_bytes_max: int
    cors_origins: tuple[str, ...]
    cors_max_age_seconds: int
    certificate_file: str
    ca_file: str


class ManagementApi:
    """The broker as the handlers of requests see it. `status`: see `Administration`."""

    def __init__(
        self,
        registry: Registry,
        administration: Administration,
        segments: SegmentFiles,
        settings: ApiSettings,
        history: StatisticsHistory,
    ) -> None:
        self.broker = registry.broker
        self.registry = registry
        self.administration = administration
        self.segments = segments
        self.settings = settings
        self.history = history
        self.bodies = RequestBodies(settings.body_bytes_max)
        self.trace_subscriptions = TraceSubscriptions()

    @property
    def series(self) -> Series:
        """The series of RabbitMQ whose API this is."""
        return self.broker.personality.series

    @property
    def cluster_name(self) -> str:
        """The name that an operator has given the broker, or else that of its settings."""
        return self.registry.cluster_name

    def update_alarms(self) -> None:
        """Measure memory and disk, and raise or clear their alarms; an idle broker does not do so by itself."""
        self.administration.process.look_around()

    @property
    def status(self) -> Callable[[], dict[str, Any]]:
        """The state of the process: listeners, memory, disk, message store."""
        return self.administration.status
