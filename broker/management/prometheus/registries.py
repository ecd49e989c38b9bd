"""The metric families of each path: /metrics, /metrics/per-object and /metrics/detailed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from prometheus_client.metrics_core import Metric

from broker.management.management_api import ManagementApi
from broker.management.prometheus import cluster_metrics
from broker.management.prometheus.global_metrics import global_families
from broker.management.prometheus.leveret_metrics import leveret_families
from broker.management.prometheus.metric_groups import GAUGE, MetricGroup, Parts, family
from broker.management.prometheus.node_metrics import alarm_families, identity_families, node_groups, start_family
from broker.management.prometheus.queue_metrics import queue_groups
from broker.management.prometheus.session_metrics import channel_groups, channels, connection_groups, open_connections

PREFIX, DETAILED_PREFIX = "rabbitmq_", "rabbitmq_detailed_"


class Registries:
    """The registries, one for each path. With `per_object_by_default`, /metrics has the families per object."""

    def __init__(self, api: ManagementApi, *, per_object_by_default: bool) -> None:
        self._api = api
        self._per_object = per_object_by_default

    def default(self) -> Parts:
        """All families in total: /metrics."""
        yield start_family(self._api)
        yield from alarm_families(self._api)
        yield from self._everything(apart=self._per_object)

    def per_object(self) -> Parts:
        """All families per object, without alarms: /metrics/per-object."""
        yield from self._everything(apart=True)

    def detailed(self, families: Collection[str], vhosts: Collection[str]) -> Parts:
        """Some families per object: /metrics/detailed. Queues are those of the virtual hosts, or all if none is named.

        Unknown families and virtual hosts are ignored.
        """
        chosen = frozenset(name for name in vhosts if name in self._api.broker.vhosts) if vhosts else None
        for group in self._groups():
            if group.name in families and not (group.name == "queue_consumer_count" and "queue_metrics" in families):
                yield from group.apart(DETAILED_PREFIX, chosen)
        for group in self._cluster_groups():
            if group.name in families:
                yield from group.apart(cluster_metrics.PREFIX, chosen)
        yield from identity_families(self._api, "detailed")

    def _everything(self, *, apart: bool) -> Parts:
        for group in self._groups():
            if group.name != "queue_consumer_count":
                yield from group.apart(PREFIX) if apart or group.always_apart else group.summed(PREFIX)
        yield from self._totals()
        yield from identity_families(self._api, "per-object" if apart else "aggregated")
        yield from global_families(self._api.registry)
        yield from leveret_families(self._api.broker.statistics.measurements)

    def _groups(self) -> Iterable[MetricGroup[Any]]:
        registry = self._api.registry
        return (
            *node_groups(self._api),
            *queue_groups(registry.broker),
            *channel_groups(registry),
            *connection_groups(registry),
        )

    def _cluster_groups(self) -> Iterable[MetricGroup[Any]]:
        broker = self._api.broker
        return cluster_metrics.vhost_group(broker), *cluster_metrics.exchange_groups(broker)

    def _totals(self) -> Iterator[Metric]:
        registry = self._api.registry
        listed = channels(registry)
        for name, help_, count in (
            ("connections", "Open connections", len(open_connections(registry))),
            ("channels", "Open channels", len(listed)),
            ("consumers", "Consumers", sum(len(channel.consumers) for channel in listed)),
            ("queues", "Queues", sum(len(vhost.queues) for vhost in registry.broker.vhosts.values())),
        ):
            yield family(PREFIX + name, GAUGE, help_, [((), count)])
