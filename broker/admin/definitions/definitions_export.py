"""What exists, in the form of RabbitMQ's definitions files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from broker import __version__
from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.json_tables import plain
from broker.admin.listing import Row, binding_row, bindings
from broker.admin.settings.parameter_admin import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES, VHost
from broker.session.connection import Connection
from storage.definitions.definition_changes import Definitions, PolicyRow


async def export_definitions(administration: Administration, arguments: Arguments) -> dict[str, Any]:
    """Everything that is not exclusive to a connection, users with the hashes of their passwords."""
    stored = await administration.definitions.load()
    settings, vhosts = administration.registry.settings, list(administration.broker.vhosts.values())
    return {
        "rabbit_version": settings.version,
        "rabbitmq_version": settings.version,
        "product_name": "Leveret",
        "product_version": __version__,
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": administration.registry.cluster_name,
        "users": _users(administration),
        "vhosts": [_vhost(vhost) for vhost in vhosts],
        "permissions": [row._asdict() for row in stored.permissions],
        "topic_permissions": [row._asdict() for row in stored.topic_permissions],
        "parameters": list(_parameters(administration, stored)),
        "global_parameters": [{"name": row.name, "value": json.loads(row.value)} for row in stored.global_parameters],
        "policies": [
            {"vhost": row.vhost, "name": row.name, **_policy(row)} for row in stored.policies if not row.operator
        ],
        "queues": [row for vhost in vhosts for row in _queues(vhost)],
        "exchanges": [row for vhost in vhosts for row in _exchanges(vhost)],
        "bindings": [row for vhost in vhosts for row in _bindings(vhost)],
    }


def _users(administration: Administration) -> list[Row]:
    limits = administration.broker.user_limits.users
    return [
        {**user._asdict(), "tags": list(user.tags), "limits": limits.get(user.name, {})}
        for user in administration.users.by_name.values()
    ]


def _vhost(vhost: VHost) -> Row:
    said = vhost.description
    metadata = {"description": said.description, "tags": list(said.tags)}
    if said.default_queue_type:
        metadata["default_queue_type"] = said.default_queue_type
    return {"name": vhost.name, **metadata, "metadata": metadata}


def _parameters(administration: Administration, stored: Definitions) -> Iterator[Row]:
    for row in stored.parameters:
        yield {**row._asdict(), "value": json.loads(row.value)}
    for vhost, limits in administration.broker.user_limits.vhosts.items():
        if limits:
            yield {"vhost": vhost, "component": VHOST_LIMITS, "name": LIMITS, "value": limits}
    for policy in stored.policies:
        if policy.operator:
            yield {"vhost": policy.vhost, "component": OPERATOR_POLICY, "name": policy.name, "value": _policy(policy)}


def _policy(row: PolicyRow) -> Row:
    return {
        "pattern": row.pattern,
        "apply-to": row.apply_to,
        "definition": json.loads(row.definition),
        "priority": row.priority,
    }


def _queues(vhost: VHost) -> Iterator[Row]:
    for queue in vhost.queues.values():
        if not isinstance(queue.owner, Connection):
            yield {
                "name": queue.name,
                "vhost": vhost.name,
                "durable": queue.durable,
                "auto_delete": queue.spec.auto_delete,
                "type": queue.type.name,
                "arguments": plain(queue.spec.arguments),
            }


def _exchanges(vhost: VHost) -> Iterator[Row]:
    for exchange in vhost.exchanges.values():
        if exchange.name not in DEFAULT_EXCHANGES:
            yield {
                "name": exchange.name,
                "vhost": vhost.name,
                "type": exchange.type,
                "durable": exchange.durable,
                "auto_delete": exchange.auto_delete,
                "internal": exchange.internal,
                "arguments": plain(exchange.arguments),
            }


def _bindings(vhost: VHost) -> Iterator[Row]:
    for binding in bindings(vhost):
        if getattr(binding.destination, "owner", None) is None:
            yield {"vhost": vhost.name, **binding_row(binding)}
