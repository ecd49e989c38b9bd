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
"""In the order in which they need each other."""
OF_VHOSTS = ("permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings")
PARAMETERS_HERE = ("operator_policy", "vhost-limits", "shovel")
"""Components of parameters that mean something to Leveret."""
POLICY_KEYS_WITHOUT_MEANING = ("ha-", "federation-", "queue-mode", "queue-version", "queue-master-locator")
NAMES = ("name", "user", "source", "exchange", "component", "destination", "routing_key")


class Left(NamedTuple):
    """Something that did not come over, or has no effect there."""

    kind: str
    vhost: str
    name: str
    reason: str


def narrowed(definitions: Definitions, vhosts: tuple[str, ...]) -> Definitions:
    """What concerns some virtual hosts, with all users."""
    kept = {kind: definitions.get(kind, []) for kind in KINDS}
    for kind in OF_VHOSTS:
        kept[kind] = [entry for entry in kept[kind] if entry["vhost"] in vhosts]
    kept["vhosts"] = [entry for entry in kept["vhosts"] if entry["name"] in vhosts]
    return kept


def bring(definitions: Definitions, target: MigratingBroker) -> Iterator[Left]:
    """Have the target take all that it takes; what it does not, one after the other. Raises AdministrationError."""
    whole = {kind: definitions[kind] for kind in KINDS if definitions.get(kind)}
    if not _taken(whole, target):
        for kind, entries in whole.items():
            yield from _bring_some(kind, entries, target)


def _taken(definitions: Definitions, target: MigratingBroker) -> bool:
    try:
        target.take_in(definitions)
    except DefinitionsRejected:
        return False
    return True


def _bring_some(kind: str, entries: list[Any], target: MigratingBroker) -> Iterator[Left]:
    """Halve what is not taken until it is one thing, with a reason."""
    try:
        target.take_in({kind: entries})
    except DefinitionsRejected as error:
        if len(entries) == 1:
            yield left(kind, entries[0], str(error))
            return
        middle = len(entries) // 2
        yield from _bring_some(kind, entries[:middle], target)
        yield from _bring_some(kind, entries[middle:], target)


def without_meaning_here(definitions: Definitions) -> Iterator[Left]:
    """What Leveret takes, keeps and shows, and what nothing comes of."""
    for entry in definitions.get("parameters", []):
        if entry["component"] not in PARAMETERS_HERE:
            yield left("parameters", entry, f"there is no {entry['component']} here")
    for entry in definitions.get("policies", []):
        keys = [key for key in entry["definition"] if key.startswith(POLICY_KEYS_WITHOUT_MEANING)]
        if keys:
            yield left("policies", entry, f"has no effect here: {', '.join(keys)}")


def left(kind: str, entry: dict[str, Any], reason: str) -> Left:
    """An entry of definitions, by what names it."""
    named = " ".join(str(entry[name]) for name in NAMES if entry.get(name))
    return Left(kind, str(entry.get("vhost", "")), named, reason)
