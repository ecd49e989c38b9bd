"""What exists, in the form of RabbitMQ's definitions files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from broker import __version__
from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.short_steps import in_steps
from broker.admin.views.json_tables import plain
from broker.admin.views.listing import Row, binding_row, bindings
from broker.entities.exchanges.exchange import Binding, Exchange
from broker.entities.node.parameters import LIMITS, OPERATOR_POLICY, VHOST_LIMITS
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.vhost import DEFAULT_EXCHANGES, VHost
from broker.session.connection import Connection
from storage.definitions.definition_changes import Definitions, PolicyRow


class Contents(NamedTuple):
    """What a virtual host has at one moment. Of exclusive queues, and what leads to them, no rows are made."""

    vhost: VHost
    queues: list[Queue]
    exchanges: list[Exchange]
    bindings: list[Binding]


async def export_definitions(administration: Administration, arguments: Arguments) -> dict[str, Any]:
    """Everything that is not exclusive to a connection, users with the hashes of their passwords."""
    stored = await administration.definitions.load()
    sections = {kind: [row async for row in in_steps(rows)] for kind, rows in whole(administration, stored)}
    return {**heading(administration), **sections}


def heading(administration: Administration) -> dict[str, str]:
    """What an export of everything says of itself."""
    return {
        **_versions(administration),
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": administration.registry.cluster_name,
    }


def heading_of_vhost(administration: Administration, vhost: VHost) -> dict[str, str]:
    """What an export of a virtual host says of itself."""
    form = {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost.name}
    return {**_versions(administration), **form}


def _versions(administration: Administration) -> dict[str, str]:
    version = administration.registry.settings.version
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "Leveret",
        "product_version": __version__,
    }


def whole(administration: Administration, stored: Definitions) -> list[tuple[str, Iterable[Row]]]:
    """Everything, as it is at this moment: kinds in RabbitMQ's order, each with rows that are made when asked for.

    The store also has policies that a start could not apply.
    """
    contents = [_contents(vhost) for vhost in administration.broker.vhosts.values()]
    parameters = ({"name": row.name, "value": json.loads(row.value)} for row in stored.global_parameters)
    return [
        ("users", _users(administration)),
        ("vhosts", [_vhost(each.vhost) for each in contents]),
        ("permissions", (row._asdict() for row in stored.permissions)),
        ("topic_permissions", (row._asdict() for row in stored.topic_permissions)),
        ("parameters", _parameters(administration, stored)),
        ("global_parameters", parameters),
        *_entities(contents, stored),
    ]


def of_vhost(administration: Administration, stored: Definitions, vhost: VHost) -> list[tuple[str, Iterable[Row]]]:
    """What is in one virtual host, in the same way; rows do not name it."""
    kinds = [("parameters", _parameters(administration, stored)), *_entities([_contents(vhost)], stored)]
    return [(kind, _without_vhost(rows, vhost.name)) for kind, rows in kinds]


def _without_vhost(rows: Iterable[Row], vhost: str) -> Iterator[Row]:
    for row in rows:
        if row.pop("vhost") == vhost:
            yield row


def _contents(vhost: VHost) -> Contents:
    return Contents(
        vhost,
        list(vhost.queues.values()),
        list(vhost.exchanges.values()),
        list(bindings(vhost)),
    )


def _entities(contents: list[Contents], stored: Definitions) -> list[tuple[str, Iterable[Row]]]:
    return [
        (
            "policies",
            ({"vhost": row.vhost, "name": row.name, **_policy(row)} for row in stored.policies if not row.operator),
        ),
        ("queues", (row for each in contents for row in _queues(each))),
        ("exchanges", (row for each in contents for row in _exchanges(each))),
        ("bindings", (row for each in contents for row in _bindings(each))),
    ]


def _queues(contents: Contents) -> Iterator[Row]:
    return (_queue(contents.vhost, queue) for queue in contents.queues if not isinstance(queue.owner, Connection))


def _exchanges(contents: Contents) -> Iterator[Row]:
    return (_exchange(contents.vhost, each) for each in contents.exchanges if each.name not in DEFAULT_EXCHANGES)


def _bindings(contents: Contents) -> Iterator[Row]:
    lasting = (each for each in contents.bindings if getattr(each.destination, "owner", None) is None)
    return (_binding(contents.vhost, each) for each in lasting)


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


def _queue(vhost: VHost, queue: Queue) -> Row:
    return {
        "name": queue.name,
        "vhost": vhost.name,
        "durable": queue.durable,
        "auto_delete": queue.spec.auto_delete,
        "type": queue.type.name,
        "arguments": plain(queue.spec.arguments),
    }


def _exchange(vhost: VHost, exchange: Exchange) -> Row:
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": plain(exchange.arguments),
    }


def _binding(vhost: VHost, binding: Binding) -> Row:
    return {"vhost": vhost.name, **binding_row(binding)}
