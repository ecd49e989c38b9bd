"""The metric families of each path: /metrics, /metrics/per-object, /metrics/detailed; of 4 the memory-breakdown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prometheus_client.metrics_core import Metric

from broker.admin.administration import Administration
from broker.entities.arguments.name_patterns import NamePattern, PatternError
from broker.management.management_api import ManagementApi
from broker.management.prometheus import cluster_metrics, metrics_of_4, stream_metrics
from broker.management.prometheus.disk_metrics import disk_metrics
from broker.management.prometheus.global_metrics import global_families
from broker.management.prometheus.leveret_metrics import leveret_families, ship_families, standby_families
from broker.management.prometheus.metric_groups import GAUGE, MetricGroup, Parts, family
from broker.management.prometheus.node_metrics import alarm_families, identity_families, node_groups, start_family
from broker.management.prometheus.queue_metrics import queue_groups
from broker.management.prometheus.session_metrics import channel_groups, channels, connection_groups, open_connections

PREFIX, DETAILED_PREFIX = "rabbitmq_", "rabbitmq_detailed_"


class ChosenQueues(NamedTuple):
    """The queues that a scrape of /metrics/detailed is for: of some virtual hosts, of some names; None for all."""

    vhosts: frozenset[str] | None
    pattern: NamePattern | None

    def of(self, group: MetricGroup[Any]) -> Callable[[Any], bool] | None:
        """Return a test whether a thing of a group is chosen; None for a group that is not one of queues."""
        vhost = group.vhost
        if vhost is None or self == (None, None):
            return None
        return lambda queue: self._has(vhost(queue), queue.name)

    def _has(self, vhost: str, name: str) -> bool:
        if self.vhosts is not None and vhost not in self.vhosts:
            return False
        try:
            return self.pattern is None or self.pattern.search(name)
        except PatternError:  # the answer has begun: a name on which the search is given up is left out
            return False


class Registries:
    """The registries, one for each path. With `per_object_by_default`, /metrics has the families per object."""

    def __init__(self, api: ManagementApi, *, per_object_by_default: bool) -> None:
        self._api = api
        self._per_object = per_object_by_default

    @property
    def administration(self) -> Administration:
        """The administration of the broker."""
        return self._api.administration

    def default(self) -> Parts:
        """All families in total: /metrics."""
        yield start_family(self._api)
        yield from alarm_families(self._api)
        yield from self._everything(apart=self._per_object)

    def per_object(self) -> Parts:
        """All families per object, alarms only in RabbitMQ 4: /metrics/per-object."""
        if self.as_4:
            yield start_family(self._api)
            yield from alarm_families(self._api)
        yield from self._everything(apart=True)

    def detailed(self, families: Collection[str], chosen: ChosenQueues) -> Parts:
        """Some families per object: /metrics/detailed. Unknown families and virtual hosts are ignored."""
        for group in self._groups():
            if group.name in families and not (group.name == "queue_consumer_count" and "queue_metrics" in families):
                yield from group.apart(DETAILED_PREFIX, chosen.of(group))
        for group in self._cluster_groups():
            if group.name in families:
                yield from group.apart(cluster_metrics.PREFIX, chosen.of(group))
        if self.as_4 and not metrics_of_4.QUEUE_FAMILIES.isdisjoint(families):
            infos = metrics_of_4.queue_infos(self._api.broker)
            yield from infos.apart(DETAILED_PREFIX, chosen.of(infos))
        offsets = stream_metrics.committed_offsets_group(self._api.broker)
        if offsets.name in families:
            yield from offsets.apart(stream_metrics.PREFIX, chosen.of(offsets))
        yield from identity_families(self._api, "detailed")

    def memory_breakdown(self, parts: Mapping[str, Any]) -> Parts:
        """The parts of the resident memory, which `memory_parts` returns: /metrics/memory-breakdown of RabbitMQ 4."""
        yield from metrics_of_4.memory_families(parts)
        yield from identity_families(self._api, "memory-breakdown")

    def chosen_queues(self, vhosts: Collection[str], pattern: str) -> ChosenQueues:
        """Return the queues of the virtual hosts, or of all if none is named. Raises InvalidPattern.

        In RabbitMQ 4.3 their names match a pattern, too.
        """
        known = frozenset(name for name in vhosts if name in self._api.broker.vhosts) if vhosts else None
        return ChosenQueues(known, NamePattern(pattern) if pattern and self._api.series >= (4, 3) else None)

    def _everything(self, *, apart: bool) -> Parts:
        for group in self._groups():
            if group.name != "queue_consumer_count":
                yield from group.apart(PREFIX) if apart or group.always_apart else group.summed(PREFIX)
        if self.as_4:
            yield from self._of_4(apart=apart)
        yield from self._totals()
        yield from identity_families(self._api, "per-object" if apart else "aggregated")
        yield from global_families(self._api.registry)
        yield from leveret_families(self._api.broker.statistics.measurements)
        status = self._api.status()
        yield from ship_families(status)
        yield from standby_families(self._api.administration.standby)
        yield from stream_metrics.committed_offsets_group(self._api.broker).apart(stream_metrics.PREFIX)
        disk = status["disk"]
        yield disk_metrics(disk["hangs"], disk["pending_seconds"])

    def _of_4(self, *, apart: bool) -> Parts:
        broker = self._api.broker
        if apart:
            yield from metrics_of_4.queue_infos(broker).apart(PREFIX)
        else:
            yield from metrics_of_4.summed_families(broker)
        yield metrics_of_4.size_family(broker)
        yield metrics_of_4.peers_family()

    @property
    def as_4(self) -> bool:
        """True for the metrics of RabbitMQ 4."""
        return self._api.series >= (4, 0)

    def _groups(self) -> Iterable[MetricGroup[Any]]:
        registry = self._api.registry
        groups = (
            *node_groups(self._api),
            *queue_groups(registry.broker),
            *channel_groups(registry),
            *connection_groups(registry),
        )
        if not self.as_4:
            return groups
        return (*metrics_of_4.as_4(groups), *metrics_of_4.groups_of_4(registry.broker))

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
