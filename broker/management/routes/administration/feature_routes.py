"""Extensions of the page, feature flags and deprecated features, which tools ask for before they use something."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from broker.admin.commands.feature_flags import EnableFeatureFlag, flags
from broker.admin.short_steps import AT_ONCE, in_steps
from broker.admin.views.columns import columns_of
from broker.entities.queues.queue import Queue
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import bad_request, empty, in_json

DEPRECATED_COLUMNS = columns_of("name", "state", "desc", "deprecation_phase", "doc_url", "provided_by")
CORE, AGENT = "rabbit", "rabbitmq_management_agent"

ANNOUNCED = "https://blog.rabbitmq.com/posts/2021/08/4.0-deprecation-announcements/"
PERMITTED, DENIED, REMOVED = "permitted_by_default", "denied_by_default", "removed"


class DeprecatedFeature(NamedTuple):
    """A feature that RabbitMQ has deprecated. The phases of 3.13 and 4.2, and of 4.3; empty: not listed."""

    what: str
    phase: str
    phase_of_4_3: str
    place: str
    """The part of the announcement about it."""
    origin: str = CORE


DEPRECATED = {
    "queue_master_locator": DeprecatedFeature("The argument x-queue-master-locator", "", DENIED, ""),
    "global_qos": DeprecatedFeature(
        "Prefetch limits that the consumers of a channel share", PERMITTED, DENIED, "#removal-of-global-qos"
    ),
    "amqp_filter_set_bug": DeprecatedFeature("Filters of AMQP 1.0: it is not spoken here", "", DENIED, ""),
    "amqp_address_v1": DeprecatedFeature("Addresses of AMQP 1.0: it is not spoken here", "", DENIED, ""),
    "management_metrics_collection": DeprecatedFeature(
        "Statistics in the management API",
        PERMITTED,
        PERMITTED,
        "#disable-metrics-delivery-via-the-management-api--ui",
        AGENT,
    ),
    "transient_nonexcl_queues": DeprecatedFeature(
        "Queues that are neither durable nor exclusive",
        PERMITTED,
        DENIED,
        "#removal-of-transient-non-exclusive-queues",
    ),
    "classic_queue_mirroring": DeprecatedFeature(
        "Mirrors of classic queues: there is one node", REMOVED, REMOVED, "#removal-of-classic-queue-mirroring"
    ),
    "ram_node_type": DeprecatedFeature(
        "Nodes that keep definitions in memory: there is one node", REMOVED, REMOVED, "#removal-of-ram-nodes"
    ),
}
"""In the order of RabbitMQ 4.3."""


def _deprecated_features(call: ApiCall) -> list[dict[str, Any]]:
    """Return the rows of the personality. Settings that permit or deny a feature change its state, not its phase."""
    personality, series = call.api.broker.personality, call.api.series
    permitted = {
        "global_qos": personality.global_qos,
        "transient_nonexcl_queues": personality.transient_queues,
        "queue_master_locator": personality.master_locator,
    }
    rows = list[dict[str, Any]]()
    for name, feature in DEPRECATED.items():
        phase = feature.phase_of_4_3 if series >= (4, 3) else feature.phase
        if phase:
            state = "permitted" if permitted.get(name, phase == PERMITTED) else "denied"
            place = f"{ANNOUNCED}{feature.place}" if feature.place or series < (4, 0) else ""
            row = {"name": name, "state": state, "desc": feature.what, "deprecation_phase": phase}
            rows.append({**row, "doc_url": place, "provided_by": feature.origin})
    return rows if series >= (4, 0) else sorted(map(_of_3_13, rows), key=_name)


def _of_3_13(row: dict[str, Any]) -> dict[str, Any]:
    return {**{key: value for key, value in row.items() if key != "state"}, "doc_url": ANNOUNCED}


def _name(row: Mapping[str, Any]) -> str:
    return str(row["name"])


async def list_extensions(call: ApiCall) -> Response:
    """List the scripts of RabbitMQ's page; its own is the only one."""
    return in_json([{"javascript": "dispatcher.js"}])


async def list_flags(call: ApiCall) -> Response:
    """List the feature flags, all of them enabled."""
    rows = flags(call.api.series)
    return await list_response(rows, columns_of(*rows[0]), call.list_query(), lambda row: str(row["name"]))


async def enable_flag(call: ApiCall) -> Response:
    """Enable a feature flag: all of them are enabled already."""
    with where_absent(lambda reason: bad_request("unsupported")):
        await call.change(EnableFeatureFlag(name=call.names["name"]))
    return empty(204)


async def list_deprecated(call: ApiCall) -> Response:
    """List deprecated features."""
    return await list_response(_deprecated_features(call), DEPRECATED_COLUMNS, call.list_query(), _name)


async def list_deprecated_in_use(call: ApiCall) -> Response:
    """List deprecated features that are in use."""
    used = [name async for name in _in_use(call)]
    rows = [{**row} for row in _deprecated_features(call) if row["name"] in used]
    for row in rows:
        row.pop("state", None)
    return await list_response(rows, DEPRECATED_COLUMNS, call.list_query(), _name)


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
