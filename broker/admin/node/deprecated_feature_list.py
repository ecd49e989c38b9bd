"""RabbitMQ's deprecated features: the phase of each in a series, and those that are in use."""

from __future__ import annotations

from typing import Any, NamedTuple

from broker.admin.short_steps import AT_ONCE, in_steps
from broker.entities.arguments.personality import Personality
from broker.entities.node.broker import Broker
from broker.entities.queues.queue import Queue
from broker.session.registry import Registry

PERMITTED, DENIED, REMOVED = "permitted_by_default", "denied_by_default", "removed"
CORE, AGENT = "rabbit", "rabbitmq_management_agent"
ANNOUNCED = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/"


class DeprecatedFeature(NamedTuple):
    """A deprecated feature; `switch` is the field of a personality that says whether it is permitted."""

    description: str
    phases: dict[str, str]
    """By series, for those that list it. 3.10, which had no such list, has 3.13's."""
    doc_url: str = ""
    provided_by: str = CORE
    switch: str = ""

    def state(self, series: str, personality: Personality) -> str:
        """Return whether the feature may be used, in RabbitMQ's word."""
        permitted = getattr(personality, self.switch) if self.switch else self.phases[series] == PERMITTED
        return "permitted" if permitted else "denied"


def _phases(*phases: str) -> dict[str, str]:
    """Return the phases in 3.13, 4.2 and 4.3; an empty one: not listed."""
    series = (("3.10", phases[0]), *zip(("3.13", "4.2", "4.3"), phases, strict=True))
    return {name: phase for name, phase in series if phase}


FEATURES = {
    "amqp_address_v1": DeprecatedFeature(
        "Addresses of the first version, in AMQP 1.0",
        _phases("", PERMITTED, DENIED),
        "https://www.rabbitmq.com/docs/amqp#addresses",
    ),
    "amqp_filter_set_bug": DeprecatedFeature(
        "Filters that are not described types, in AMQP 1.0",
        _phases("", PERMITTED, DENIED),
        "https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-messaging-v1.0-os.html#type-filter-set",
    ),
    "classic_queue_mirroring": DeprecatedFeature(
        "Mirrors of classic queues: there is one node",
        _phases(REMOVED, REMOVED, REMOVED),
        ANNOUNCED + "#removal-of-classic-queue-mirroring",
    ),
    "global_qos": DeprecatedFeature(
        "Prefetch limits that the consumers of a channel share",
        _phases(PERMITTED, PERMITTED, DENIED),
        ANNOUNCED + "#removal-of-global-qos",
        switch="global_qos",
    ),
    "management_metrics_collection": DeprecatedFeature(
        "Statistics in the management API",
        _phases(PERMITTED, PERMITTED, PERMITTED),
        ANNOUNCED + "#disable-metrics-delivery-via-the-management-api--ui",
        AGENT,
    ),
    "queue_master_locator": DeprecatedFeature(
        "The argument x-queue-master-locator", _phases("", PERMITTED, DENIED), switch="master_locator"
    ),
    "ram_node_type": DeprecatedFeature(
        "Nodes that keep definitions in memory: there is one node",
        _phases(REMOVED, REMOVED, REMOVED),
        ANNOUNCED + "#removal-of-ram-nodes",
    ),
    "transient_nonexcl_queues": DeprecatedFeature(
        "Queues that are neither durable nor exclusive",
        _phases(PERMITTED, PERMITTED, DENIED),
        ANNOUNCED + "#removal-of-transient-non-exclusive-queues",
        switch="transient_queues",
    ),
}
"""By name, in its order."""


def deprecated_features(personality: Personality) -> list[dict[str, Any]]:
    """Return the deprecated features of a personality's series as rows."""
    series = personality.series_name
    return [
        {
            "name": name,
            "state": feature.state(series, personality),
            "desc": feature.description,
            "deprecation_phase": feature.phases[series],
            "doc_url": feature.doc_url,
            "provided_by": feature.provided_by,
        }
        for name, feature in FEATURES.items()
        if series in feature.phases
    ]


async def deprecated_features_in_use(broker: Broker, registry: Registry) -> list[dict[str, Any]]:
    """Return those that are in use as rows."""
    channels = (channel for each in registry.network_connections for channel in each.channels.values())
    used = {"global_qos"} if any(channel.prefetch_all for channel in channels) else set[str]()
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    async for queue in in_steps(queues, at_once=AT_ONCE):
        used.update(_used_by(queue))
    return [row for row in deprecated_features(broker.personality) if row["name"] in used]


def _used_by(queue: Queue) -> list[str]:
    transient = not queue.durable and queue.owner is None
    located = "x-queue-master-locator" in queue.arguments
    return [*(["transient_nonexcl_queues"] if transient else []), *(["queue_master_locator"] if located else [])]
