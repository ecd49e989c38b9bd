"""Extensions of the page, feature flags and deprecated features, which tools ask for before they use something."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from broker.admin.commands.feature_flags import EnableFeatureFlag, flags
from broker.admin.node.deprecated_feature_list import deprecated_features, deprecated_features_in_use
from broker.admin.views.columns import columns_of
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import ListQuery, list_response
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, bad_request, empty, in_json

DEPRECATED_COLUMNS = columns_of("name", "state", "desc", "deprecation_phase", "doc_url", "provided_by")
USED_COLUMNS = columns_of("name", "desc", "deprecation_phase", "doc_url", "provided_by")


async def list_extensions(call: ApiCall) -> Response:
    """List the scripts of RabbitMQ's page; its own is the only one."""
    return in_json([{"javascript": "dispatcher.js"}])


async def list_flags(call: ApiCall) -> Response:
    """List the feature flags, all of them enabled."""
    rows = flags(call.api.series)
    return await list_response(rows, columns_of(*rows[0]), call.list_query(), _name)


async def enable_flag(call: ApiCall) -> Response:
    """Enable a feature flag: all of them are enabled already."""
    with where_absent(lambda reason: bad_request("unsupported")):
        await call.change(EnableFeatureFlag(name=call.names["name"]))
    return empty(204)


async def list_deprecated(call: ApiCall) -> Response:
    """List deprecated features."""
    personality = call.broker.personality
    columns = DEPRECATED_COLUMNS if personality.deprecation_states else USED_COLUMNS
    return await list_response(deprecated_features(personality), columns, _query(call), _name)


async def list_deprecated_in_use(call: ApiCall) -> Response:
    """List deprecated features that are in use."""
    used = await deprecated_features_in_use(call.broker, call.api.registry)
    return await list_response(used, USED_COLUMNS, _query(call), _name)


def _query(call: ApiCall) -> ListQuery:
    """Return the query without columns, which RabbitMQ 4 ignores here."""
    query = call.list_query()
    return query._replace(columns=()) if call.api.series >= (4, 0) else query


def _name(row: Mapping[str, Any]) -> str:
    return str(row["name"])


RESOURCES: list[Resource] = [
    resource("/api/extensions", GET=(Tag.ANY, list_extensions)),
    resource("/api/feature-flags", GET=(Tag.ANY, list_flags)),
    resource("/api/feature-flags/{name}/enable", vary=VARY_OF_ONE_TYPE, PUT=(Tag.ADMINISTRATOR, enable_flag)),
    resource("/api/deprecated-features", GET=(Tag.ANY, list_deprecated)),
    resource("/api/deprecated-features/used", GET=(Tag.ANY, list_deprecated_in_use)),
]
