"""Definitions of one broker for another: all of them, but what the other does not take or has no use for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.migration.migrating_brokers import Definitions, DefinitionsRejected, MigratingBroker

KINDS = (
    "users",
    "vhosts",
    "permissions",
    "topic_permissions",
    "parameters",
    "global_parameters",
    "policies",
    "queues",
    "exchanges",
    "bindings",
)
"""Kinds of definitions, in the order of their dependencies."""
OF_VHOSTS = ("permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings")
PARAMETERS_HERE = ("operator_policy", "vhost-limits", "shovel")
"""Components of parameters that mean something to Leveret."""
POLICY_KEYS_WITHOUT_MEANING = ("ha-", "federation-", "queue-mode", "queue-version", "queue-master-locator")
NAMES = ("name", "user", "source", "exchange", "component", "destination", "routing_key")


class NotMigrated(NamedTuple):
    """A definition, or messages, that were not migrated, or have no effect at the target."""

    kind: str
    vhost: str
    name: str
    reason: str


def narrowed(definitions: Definitions, vhosts: tuple[str, ...]) -> Definitions:
    """Keep the definitions of some virtual hosts, and all users."""
    kept = {kind: definitions.get(kind, []) for kind in KINDS}
    for kind in OF_VHOSTS:
        kept[kind] = [entry for entry in kept[kind] if entry["vhost"] in vhosts]
    kept["vhosts"] = [entry for entry in kept["vhosts"] if entry["name"] in vhosts]
    return kept


def import_definitions(definitions: Definitions, target: MigratingBroker) -> Iterator[NotMigrated]:
    """Import definitions into the target. Those it rejects are found by bisection, skipped and reported.

    Raises AdministrationError.
    """
    whole = {kind: definitions[kind] for kind in KINDS if definitions.get(kind)}
    if not _accepted(whole, target):
        for kind, entries in whole.items():
            yield from _import_halves(kind, entries, target)


def _accepted(definitions: Definitions, target: MigratingBroker) -> bool:
    try:
        target.import_definitions(definitions)
    except DefinitionsRejected:
        return False
    return True


def _import_halves(kind: str, entries: list[Any], target: MigratingBroker) -> Iterator[NotMigrated]:
    """Import entries of one kind; if they are rejected, each half, down to single entries with a reason."""
    try:
        target.import_definitions({kind: entries})
    except DefinitionsRejected as error:
        if len(entries) == 1:
            yield not_migrated(kind, entries[0], str(error))
            return
        middle = len(entries) // 2
        yield from _import_halves(kind, entries[:middle], target)
        yield from _import_halves(kind, entries[middle:], target)


def without_meaning_here(definitions: Definitions) -> Iterator[NotMigrated]:
    """Yield the definitions that Leveret stores and shows, and that have no effect in it."""
    for entry in definitions.get("parameters", []):
        if entry["component"] not in PARAMETERS_HERE:
            yield not_migrated("parameters", entry, f"there is no {entry['component']} here")
    for entry in definitions.get("policies", []):
        keys = [key for key in entry["definition"] if key.startswith(POLICY_KEYS_WITHOUT_MEANING)]
        if keys:
            yield not_migrated("policies", entry, f"has no effect here: {', '.join(keys)}")


def not_migrated(kind: str, entry: dict[str, Any], reason: str) -> NotMigrated:
    """Describe an entry of definitions by its names."""
    named = " ".join(str(entry[name]) for name in NAMES if entry.get(name))
    return NotMigrated(kind, str(entry.get("vhost", "")), named, reason)
