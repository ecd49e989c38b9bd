"""Transfer of definitions to another broker: all that it accepts."""

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
"""In the order in which they depend on each other."""
OF_VHOSTS = ("permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings")
PARAMETERS_HERE = ("operator_policy", "vhost-limits", "shovel")
"""Components of parameters that have an effect in Leveret."""
POLICY_KEYS_WITHOUT_MEANING = ("ha-", "federation-", "queue-mode", "queue-version", "queue-master-locator")
NAMES = ("name", "user", "source", "exchange", "component", "destination", "routing_key")


class NotMoved(NamedTuple):
    """A definition or a queue's messages that were not moved, or have no effect at the target."""

    kind: str
    vhost: str
    name: str
    reason: str


def narrowed(definitions: Definitions, vhosts: tuple[str, ...]) -> Definitions:
    """Return the definitions of some virtual hosts, and all users."""
    kept = {kind: definitions.get(kind, []) for kind in KINDS}
    for kind in OF_VHOSTS:
        kept[kind] = [entry for entry in kept[kind] if entry["vhost"] in vhosts]
    kept["vhosts"] = [entry for entry in kept["vhosts"] if entry["name"] in vhosts]
    return kept


def bring(definitions: Definitions, target: MigratingBroker) -> Iterator[NotMoved]:
    """Import definitions into the target; yield those that it refuses. Raises AdministrationError."""
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


def _bring_some(kind: str, entries: list[Any], target: MigratingBroker) -> Iterator[NotMoved]:
    """Import some definitions, halving them after each refusal until each refused one is found with its reason."""
    try:
        target.take_in({kind: entries})
    except DefinitionsRejected as error:
        if len(entries) == 1:
            yield left(kind, entries[0], str(error))
            return
        middle = len(entries) // 2
        yield from _bring_some(kind, entries[:middle], target)
        yield from _bring_some(kind, entries[middle:], target)


def without_meaning_here(definitions: Definitions) -> Iterator[NotMoved]:
    """Yield the definitions that Leveret accepts, keeps and shows, without an effect."""
    for entry in definitions.get("parameters", []):
        if entry["component"] not in PARAMETERS_HERE:
            yield left("parameters", entry, f"there is no {entry['component']} here")
    for entry in definitions.get("policies", []):
        keys = [key for key in entry["definition"] if key.startswith(POLICY_KEYS_WITHOUT_MEANING)]
        if keys:
            yield left("policies", entry, f"has no effect here: {', '.join(keys)}")


def left(kind: str, entry: dict[str, Any], reason: str) -> NotMoved:
    """Return a definition that was not moved, by its name."""
    named = " ".join(str(entry[name]) for name in NAMES if entry.get(name))
    return NotMoved(kind, str(entry.get("vhost", "")), named, reason)
