"""The overview of the broker, and its only node."""

from __future__ import annotations

import platform
import ssl
from typing import Any

from starlette.responses import Response

from broker.admin.commands.connection_admin import ResetAuthAttempts
from broker.admin.node.memory_parts import memory_parts, parts_of_4, relative
from broker.admin.short_steps import AT_ONCE, in_steps, pause_if_due
from broker.entities.arguments.personality import Series
from broker.entities.vhosts.vhost import VHost
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, empty, in_json, not_found
from broker.management.rows.listener_rows import contexts, listeners
from broker.management.rows.node_rows import exchange_types, node_row
from broker.session.connection import Connection

PRODUCT = "Leveret"
RETENTION = {"global": [600, 3600, 28800, 86400], "basic": [600, 3600], "detailed": [600]}
"""Seconds for which samples are kept, by RabbitMQ's retention policies."""


async def overview(call: ApiCall) -> Response:
    """Show the broker, and totals of everything that the user sees."""
    api, monitors = call.api, call.account.monitors
    row = _identity(call)
    if call.flag("disable_stats"):
        row |= {"node": api.settings.node, "object_totals": await _brief_totals(call)}
    else:
        row |= await _statistics(call)
        if monitors:
            api.update_alarms()
            node, status = api.settings.node, api.status()
            row |= {"node": node, "listeners": listeners(status, node, api.series)}
            row["contexts"] = [{"node": node, "ssl_opts": [], **context} for context in contexts(status)]
    return in_json(call.chosen(row))


async def _statistics(call: ApiCall) -> dict[str, Any]:
    """Totals and rates: of all virtual hosts for a monitor, of those that the user sees for others."""
    history, ages = call.history_query
    seen = None if call.account.monitors else call.vhosts()
    totals, objects = await _queue_totals(_vhosts(call)), await _object_totals(call)
    message_stats = history.overview_stats(seen, ages)
    await pause_if_due()
    return {
        "message_stats": message_stats,
        "churn_rates": history.churn_rates(ages),
        "queue_totals": totals | history.overview_lengths(seen, ages) if totals else {},
        "object_totals": objects,
        "statistics_db_event_queue": 0,
    }


def _identity(call: ApiCall) -> dict[str, Any]:
    administration, settings = call.api.administration, call.api.settings
    states: dict[str, Any] = {} if administration.testing is None else {"testing": True}
    if administration.standby is not None:
        states["standby"] = administration.standby.read_only
    return states | {
        "management_version": settings.version,
        "rates_mode": settings.rates_mode,
        "sample_retention_policies": RETENTION,
        "exchange_types": exchange_types(),
        "product_version": settings.product_version,
        "product_name": PRODUCT,
        "rabbitmq_version": settings.version,
        "cluster_name": call.api.registry.cluster_name,
        "erlang_version": "n/a",
        "erlang_full_version": f"n/a ({platform.python_implementation()} {platform.python_version()})",
        **_of_series(call),
        "disable_stats": call.flag("disable_stats"),
        "is_op_policy_updating_enabled": True,
        "enable_queue_totals": call.flag("enable_queue_totals"),
    }


def _of_series(call: ApiCall) -> dict[str, Any]:
    """Return the fields that only one of RabbitMQ's major versions has."""
    if call.api.series < (4, 0):
        return {"release_series_support_status": "supported"}
    return {
        "cluster_tags": {},
        "node_tags": {},
        "crypto_lib_version": ssl.OPENSSL_VERSION,
        "default_queue_type": call.broker.default_queue_type,
        "require_definition_json_extension": False,
    }


def _connections(call: ApiCall) -> list[Connection]:
    """The connections that the user may see."""
    account = call.account
    return [
        connection
        for connection in call.api.registry.network_connections
        if connection.vhost_name and (account.monitors or connection.user == account.name)
    ]


async def _object_totals(call: ApiCall) -> dict[str, int]:
    vhosts, connections = _vhosts(call), _connections(call)
    channels = consumers = 0
    async for connection in in_steps(connections, at_once=AT_ONCE):
        channels += len(connection.channels)
        consumers += sum(len(channel.consumers) for channel in connection.channels.values())
    return {
        "channels": channels,
        "connections": len(connections),
        "consumers": consumers,
        "exchanges": sum(len(vhost.exchanges) for vhost in vhosts),
        "queues": sum(len(vhost.queues) for vhost in vhosts),
    }


async def _brief_totals(call: ApiCall) -> dict[str, int]:
    totals = await _object_totals(call)
    names = ("queues", "exchanges", *(["connections"] if call.account.monitors else []))
    return {name: totals[name] for name in names}


def _vhosts(call: ApiCall) -> list[VHost]:
    """All virtual hosts for a monitor, those that the user sees for others."""
    return list(call.broker.vhosts.values()) if call.account.monitors else call.vhosts()


async def _queue_totals(vhosts: list[VHost]) -> dict[str, int]:
    """The messages in all queues; empty without queues."""
    ready = unacked = messages = 0
    queues = [queue for vhost in vhosts for queue in vhost.queues.values()]
    async for queue in in_steps(queues, at_once=AT_ONCE):
        ready += queue.ready
        unacked += queue.unacked
        messages += queue.messages
    if not queues:
        return {}
    return {"messages": messages, "messages_ready": ready, "messages_unacknowledged": unacked}


# Nodes


async def list_nodes(call: ApiCall) -> Response:
    """List the only node."""
    return in_json([await _node(call)])


async def show_node(call: ApiCall) -> Response:
    """Show the only node."""
    _assert_here(call)
    return in_json(await _node(call))


async def _node(call: ApiCall) -> Any:
    if call.flag("disable_stats"):
        row: dict[str, Any] = {"name": call.api.settings.node, "running": True, "type": "disc"}
    else:
        call.api.update_alarms()
        row = node_row(call.api, call.history_query.ages)
    if call.flag("memory"):
        row["memory"] = await _memory(call)
    return call.chosen(row)


async def show_memory(call: ApiCall) -> Response:
    """Show the use of the node's memory in bytes."""
    _assert_here(call)
    return in_json({"memory": await _memory(call)})


async def show_relative_memory(call: ApiCall) -> Response:
    """Show the use of the node's memory in per cent."""
    _assert_here(call)
    return in_json({"memory": relative(await _memory(call))})


async def _memory(call: ApiCall) -> dict[str, Any]:
    parts = await memory_parts(call.api.administration)
    return parts_of_4(parts) if call.api.series >= (4, 0) else parts


async def show_tables_memory(call: ApiCall) -> Response:
    """Show the memory of Erlang's tables: there are none."""
    _assert_here(call)
    return in_json({"ets_tables_memory": "no_tables"})


async def list_login_attempts(call: ApiCall) -> Response:
    """List login attempts since the start by protocol."""
    _assert_here(call)
    return in_json(
        [
            {
                "protocol": protocol,
                "auth_attempts": logins.succeeded + logins.failed,
                "auth_attempts_failed": logins.failed,
                "auth_attempts_succeeded": logins.succeeded,
            }
            for protocol, logins in call.broker.statistics.logins.items()
            if logins.succeeded or logins.failed
        ]
    )


async def list_login_attempts_by_source(call: ApiCall) -> Response:
    """List login attempts by address and user: none are counted. RabbitMQ counts them only if it is configured to."""
    _assert_here(call)
    return in_json([])


async def reset_login_attempts(call: ApiCall) -> Response:
    """Reset the counters of login attempts."""
    _assert_here(call)
    await call.change(ResetAuthAttempts())
    return empty(204)


async def reset_statistics(call: ApiCall) -> Response:
    """Drop all samples. Counters stay."""
    if "node" in call.names:
        _assert_here(call)
    await call.api.history.forget()
    return empty(204)


def _assert_here(call: ApiCall) -> None:
    if call.names["node"] != call.api.settings.node:
        raise not_found()


def _login_attempts(resetting: Tag, *, since: Series = (3, 10), until: Series = (99, 0)) -> list[Resource]:
    """Return the routes of login attempts. `resetting`: the tag that resetting them takes."""
    lists = {"": list_login_attempts, "/source": list_login_attempts_by_source}
    reset = resetting, reset_login_attempts
    return [
        resource(
            f"/api/auth/attempts/{{node}}{part}", GET=(Tag.MONITORING, shown), DELETE=reset, since=since, until=until
        )
        for part, shown in lists.items()
    ]


RESOURCES: list[Resource] = [
    resource("/api/overview", GET=(Tag.ANY, overview)),
    resource("/api/nodes", GET=(Tag.MONITORING, list_nodes)),
    resource("/api/nodes/{node}", GET=(Tag.MONITORING, show_node)),
    resource("/api/nodes/{node}/memory", GET=(Tag.MONITORING, show_memory)),
    resource("/api/nodes/{node}/memory/relative", GET=(Tag.MONITORING, show_relative_memory)),
    *(
        resource(f"/api/nodes/{{node}}/memory/ets{rest}", GET=(Tag.MONITORING, show_tables_memory), since=(4, 0))
        for rest in ("", "/relative", "/{filter}", "/{filter}/relative")
    ),
    resource("/api/reset", vary=VARY_OF_ONE_TYPE, DELETE=(Tag.ADMINISTRATOR, reset_statistics)),
    resource("/api/reset/{node}", vary=VARY_OF_ONE_TYPE, DELETE=(Tag.ADMINISTRATOR, reset_statistics)),
    *_login_attempts(Tag.MONITORING, until=(4, 0)),
    *_login_attempts(Tag.ADMINISTRATOR, since=(4, 0)),
]
