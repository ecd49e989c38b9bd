"""Extensions of the page, feature flags and deprecated features, which tools ask for before they use something."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response

from broker.admin.commands.feature_flags import FLAGS, EnableFeatureFlag
from broker.admin.short_steps import AT_ONCE, in_steps
from broker.admin.views.columns import columns_of
from broker.entities.queues.queue import Queue
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import bad_request, empty, in_json

FLAG_COLUMNS = columns_of(*FLAGS[0])
DEPRECATED_COLUMNS = columns_of("name", "desc", "deprecation_phase", "doc_url", "provided_by")
CORE, AGENT = "rabbit", "rabbitmq_management_agent"

ANNOUNCED = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/"
PERMITTED, DENIED, REMOVED = "permitted_by_default", "denied_by_default", "removed"

DEPRECATED = {
    "classic_queue_mirroring": (REMOVED, "Mirrors of classic queues: there is one node", CORE),
    "global_qos": (PERMITTED, "Prefetch limits that the consumers of a channel share", CORE),
    "management_metrics_collection": (PERMITTED, "Statistics in the management API", AGENT),
    "ram_node_type": (REMOVED, "Nodes that keep definitions in memory: there is one node", CORE),
    "transient_nonexcl_queues": (PERMITTED, "Queues that are neither durable nor exclusive", CORE),
}
"""Features that RabbitMQ 3.13 has deprecated: phase, description, origin."""
LOCATOR = (DENIED, "The argument x-queue-master-locator", CORE)


def _deprecated_features(call: ApiCall) -> dict[str, tuple[str, str, str]]:
    """The deprecated features of the personality; those that it refuses are denied."""
    personality = call.api.registry.settings.personality
    gone = {"global_qos": personality.global_qos, "transient_nonexcl_queues": personality.transient_queues}
    features = {
        name: (phase if gone.get(name, True) else DENIED, what, origin)
        for name, (phase, what, origin) in DEPRECATED.items()
    }
    return features if personality.master_locator else {**features, "queue_master_locator": LOCATOR}


async def list_extensions(call: ApiCall) -> Response:
    """List the scripts of RabbitMQ's page; its own is the only one."""
    return in_json([{"javascript": "dispatcher.js"}])


async def list_flags(call: ApiCall) -> Response:
    """List the feature flags, all of them enabled."""
    return await list_response(FLAGS, FLAG_COLUMNS, call.list_query(), lambda row: str(row["name"]))


async def enable_flag(call: ApiCall) -> Response:
    """Enable a feature flag: all of them are enabled already."""
    with where_absent(lambda reason: bad_request("unsupported")):
        await call.change(EnableFeatureFlag(name=call.names["name"]))
    return empty(204)


async def list_deprecated(call: ApiCall) -> Response:
    """List deprecated features."""
    return await _deprecated(call, sorted(_deprecated_features(call)))


async def list_deprecated_in_use(call: ApiCall) -> Response:
    """List deprecated features that are in use."""
    return await _deprecated(call, [name async for name in _in_use(call)])


async def _deprecated(call: ApiCall, names: list[str]) -> Response:
    rows: list[dict[str, Any]] = []
    features = _deprecated_features(call)
    for name in names:
        phase, what, origin = features[name]
        row = {"name": name, "desc": what, "deprecation_phase": phase, "doc_url": ANNOUNCED, "provided_by": origin}
        rows.append(row)
    return await list_response(rows, DEPRECATED_COLUMNS, call.list_query(), lambda row: str(row["name"]))


async def _in_use(call: ApiCall) -> AsyncIterator[str]:
    channels = (channel for each in call.api.registry.network_connections for channel in each.channels.values())
    if any(channel.prefetch_all for channel in channels):
        yield "global_qos"
    queues = [queue for vhost in call.broker.vhosts.values() for queue in vhost.queues.values()]
    async for queue in in_steps(queues, at_once=AT_ONCE):
        if _transient(queue):
            yield "transient_nonexcl_queues"
            return


def _transient(queue: Queue) -> bool:
    return not queue.durable and queue.owner is None


RESOURCES: list[Resource] = [
    resource("/api/extensions", GET=(Tag.ANY, list_extensions)),
    resource("/api/feature-flags", GET=(Tag.ANY, list_flags)),
    resource("/api/feature-flags/{name}/enable", PUT=(Tag.ADMINISTRATOR, enable_flag)),
    resource("/api/deprecated-features", GET=(Tag.ANY, list_deprecated)),
    resource("/api/deprecated-features/used", GET=(Tag.ANY, list_deprecated_in_use)),
]
