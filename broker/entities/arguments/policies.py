"""Policies: arguments that an operator sets for queues and exchanges by a pattern of their names.

An entity has at most one policy and one operator policy: of those whose pattern is found in its name, the one of the
highest priority. If several of policy, operator policy and declaration set a number, the smallest one counts; for
values that are not numbers the declaration wins. Queue types have exceptions. RabbitMQ 3.10 on the wire is the model.
Which of two policies of one priority it takes is an accident of its hashing; here it is the first by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from broker.entities.arguments.name_patterns import NamePattern
from broker.entities.arguments.policy_keys import EXCHANGE, PolicyRules
from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS, QueueArguments, parse
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, type_of
from broker.wire.field_tables import Table

_ALL_QUEUES = frozenset({CLASSIC.name, QUORUM.name, STREAM.name})
APPLY_TO: dict[str, frozenset[str]] = {
    "queues": _ALL_QUEUES,
    "exchanges": frozenset({EXCHANGE}),
    "classic_queues": frozenset({CLASSIC.name}),
    "quorum_queues": frozenset({QUORUM.name}),
    "streams": frozenset({STREAM.name}),
    "all": _ALL_QUEUES | {EXCHANGE},
}
"""Values of apply-to, and the kinds that each means. RabbitMQ has those for one queue type since 3.12."""

SMALLER_WINS = frozenset(
    {
        "consumer-timeout",
        "delayed-retry-max",
        "delayed-retry-min",
        "delivery-limit",
        "expires",
        "max-in-memory-bytes",
        "max-in-memory-length",
        "max-length",
        "max-length-bytes",
        "message-ttl",
    }
)
"""Keys of which the smallest value counts."""

BEFORE_ARGUMENTS: dict[str, frozenset[str]] = {
    CLASSIC.name: frozenset(),
    QUORUM.name: frozenset({"delayed-retry-type", "expires", "overflow"}),
    STREAM.name: frozenset({"max-length-bytes"}),
}
"""Keys of which a policy's value counts before an argument's, by queue type."""


class Policy(NamedTuple):
    """A policy, or an operator policy. `definition` is validated: known keys, valid values."""

    name: str
    pattern: NamePattern
    apply_to: str
    definition: Mapping[str, Any]
    priority: int

    def is_for(self, kind: str, rules: PolicyRules) -> bool:
        """Return whether the policy could apply to an entity of this kind, if the pattern matches."""
        return kind in APPLY_TO[self.apply_to] and rules.unsupported[kind].isdisjoint(self.definition)


class InForce(NamedTuple):
    """The policies that apply to one entity."""

    policy: Policy | None = None
    operator: Policy | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """The merged definition. An operator policy can lower a number, or add a key that the policy does not have."""
        merged = dict(self.policy.definition) if self.policy is not None else {}
        for key, value in self.operator.definition.items() if self.operator is not None else ():
            merged[key] = _MERGED.get(key, min)(merged[key], value) if key in merged else value
        return merged


def _operators(value: Any, of_operator: Any) -> Any:
    return of_operator


def _delivery_limit(*values: int) -> int:
    """Return the smaller limit; a negative one is none, and larger than all."""
    return min(values) if min(values) >= 0 else max(values)


_MERGED: dict[str, Callable[[Any, Any], Any]] = {
    "delayed-retry-min": max,
    "delayed-retry-type": _operators,
    "delivery-limit": _delivery_limit,
    "ha-mode": _operators,
    "ha-params": _operators,
    "ha-sync-mode": _operators,
    "overflow": _operators,
    "queue-master-locator": _operators,
    "queue-version": _operators,
    "target-group-size": max,
}
"""The value of a key that a policy and an operator policy have; otherwise the smaller one."""


NONE_IN_FORCE = InForce()


def effective(declared: Table, in_force: InForce) -> QueueArguments:
    """Return the arguments in force for a queue: those declared, with policies applied."""
    arguments = parse(declared)
    before = BEFORE_ARGUMENTS[type_of(declared).name]
    changes: dict[str, Any] = {}
    for key, given in in_force.definition.items():
        value = math.inf if key == "delivery-limit" and given < 0 else given
        field = key.replace("-", "_")
        if field not in QueueArguments._fields:
            continue
        argument = getattr(arguments, field) if f"x-{key}" in declared else None
        if argument is None or key in before:
            changes[field] = value
        elif key in SMALLER_WINS:
            changes[field] = min(value, argument)
    for field in _TIMES.intersection(changes):
        changes[field] = min(changes[field], EXPIRY_MAX_MILLISECONDS)  # checked for arguments, but not for policies
    return arguments._replace(**changes)


_TIMES = frozenset({"message_ttl", "expires"})


def alternate(declared: Table, in_force: InForce) -> str | None:
    """Return the alternate exchange in force: the declared one, else the policy's, else None."""
    argument = declared.get("alternate-exchange")
    if argument is None:
        name: str = in_force.definition.get("alternate-exchange", "")
    else:
        name = bytes(argument.value).decode("utf-8", "surrogateescape")
    return name or None
