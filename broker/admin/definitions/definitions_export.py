"""Everything that exists, in the form of RabbitMQ's definitions files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from broker import __version__
from broker.admin.administration import Administration
from broker.admin.kinds import parameter_kind, policy_kind, topology_entries, user_kind, vhost_kind
from broker.admin.kinds.topology_entries import VhostContents, contents_of
from broker.admin.short_steps import in_steps
from broker.entities.vhosts.vhost import VHost
from storage.definitions.definition_rows import Definitions

Row = dict[str, Any]
Section = tuple[str, Iterable[Row]]
"""A list of a definitions file: its name, and its entries."""


async def export_definitions(administration: Administration) -> dict[str, Any]:
    """Return everything that is not exclusive to a connection, users with the hashes of their passwords."""
    stored = await administration.definitions.load()
    sections = {kind: [row async for row in in_steps(rows)] for kind, rows in whole(administration, stored)}
    return {**heading(administration), **sections}


def heading(administration: Administration) -> dict[str, Any]:
    """Return the fields at the head of an export of everything."""
    name = administration.registry.cluster_name
    explained = {"explanation": f"Definitions of cluster '{name}'"} if _of_4(administration) else {}
    return {
        **_versions(administration),
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": name,
        **explained,
    }


def heading_of_vhost(administration: Administration, vhost: VHost) -> dict[str, Any]:
    """Return the fields at the head of an export of a virtual host."""
    form = {"rabbitmq_definition_format": "single_virtual_host", "original_vhost_name": vhost.name}
    described: Row = {}
    if _of_4(administration):
        described = {
            "explanation": f"Definitions of virtual host '{vhost.name}'",
            "description": vhost.description.description,
            "limits": vhost_kind.limits_of(administration.broker, vhost),
            "metadata": vhost_kind.metadata(vhost.description),
        }
    return {**_versions(administration), **form, **described}


def _of_4(administration: Administration) -> bool:
    return administration.broker.personality.series >= (4, 0)


def _versions(administration: Administration) -> dict[str, str]:
    version = administration.registry.settings.version
    return {
        "rabbit_version": version,
        "rabbitmq_version": version,
        "product_name": "Leveret",
        "product_version": __version__,
    }


def whole(administration: Administration, stored: Definitions) -> list[Section]:
    """Return everything as it is now: sections in RabbitMQ's order, whose rows are made when asked for."""
    broker = administration.broker
    contents = [contents_of(vhost) for vhost in broker.vhosts.values()]
    return [
        ("users", user_kind.exported(broker)),
        ("vhosts", [vhost_kind.exported(broker, each.vhost) for each in contents]),
        ("permissions", (row._asdict() for row in stored.permissions)),
        ("topic_permissions", (row._asdict() for row in stored.topic_permissions)),
        ("parameters", parameter_kind.exported(broker, stored)),
        ("global_parameters", parameter_kind.exported_globally(broker, stored)),
        *_in_vhosts(contents, stored),
    ]


def of_vhost(administration: Administration, stored: Definitions, vhost: VHost) -> list[Section]:
    """Return what is in one virtual host, in the same way; rows do not name it."""
    sections = [
        ("parameters", parameter_kind.exported(administration.broker, stored)),
        *_in_vhosts([contents_of(vhost)], stored),
    ]
    return [(name, _without_vhost(rows, vhost.name)) for name, rows in sections]


def _in_vhosts(contents: list[VhostContents], stored: Definitions) -> list[Section]:
    return [
        ("policies", policy_kind.exported(stored)),
        ("queues", topology_entries.exported_queues(contents)),
        ("exchanges", topology_entries.exported_exchanges(contents)),
        ("bindings", topology_entries.exported_bindings(contents)),
    ]


def _without_vhost(rows: Iterable[Row], vhost: str) -> Iterator[Row]:
    for row in rows:
        if row.pop("vhost") == vhost:
            yield row
