"""Policies: arguments that an operator sets for queues and exchanges by a pattern of their names.

An entity has at most one policy and one operator policy: of those whose pattern is found in its name, the one of the
highest priority. If several of policy, operator policy and declaration set a number, the smallest one counts; for
values that are not numbers the declaration wins. Queue types have exceptions. RabbitMQ 3.10 on the wire is the model.
Which of two policies of one priority it takes is an accident of its hashing; here it is the first by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.entities.arguments.name_patterns import NamePattern
from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS, QueueArguments, parse
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, type_of
from broker.wire.field_tables import Table

EXCHANGE = "exchange"
"""The kind of entity, beside the queue types, that a policy may apply to."""

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

_OF_CLASSIC_ALONE = frozenset(
    {"ha-mode", "ha-params", "ha-promote-on-failure", "ha-promote-on-shutdown", "ha-sync-mode"}
    | {"queue-master-locator", "queue-mode"}
)
_OF_STREAMS_ALONE = frozenset({"initial-cluster-size", "max-age", "stream-max-segment-size-bytes"})
_NOT_OF_STREAMS = frozenset(
    {"dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy", "delivery-limit", "expires"}
    | {"max-in-memory-bytes", "max-in-memory-length", "max-length", "message-ttl", "overflow"}
)
UNSUPPORTED: dict[str, frozenset[str]] = {
    EXCHANGE: frozenset(),
    CLASSIC.name: _OF_STREAMS_ALONE | {"dead-letter-strategy", "delivery-limit", "queue-leader-locator"},
    QUORUM.name: _OF_CLASSIC_ALONE | _OF_STREAMS_ALONE,
    STREAM.name: _OF_CLASSIC_ALONE | _NOT_OF_STREAMS,
}
"""Keys that a kind does not support: a policy with one of them does not apply to it at all."""

SMALLER_WINS = frozenset(
    {
        "consumer-timeout",
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
    QUORUM.name: frozenset({"expires", "overflow"}),
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

    def is_for(self, kind: str) -> bool:
        """Return whether the policy could apply to an entity of this kind, if the pattern matches."""
        return kind in APPLY_TO[self.apply_to] and UNSUPPORTED[kind].isdisjoint(self.definition)


class InForce(NamedTuple):
    """The policies that apply to one entity."""

    policy: Policy | None = None
    operator: Policy | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """The merged definition. An operator policy can lower a number, or add a key that the policy does not have."""
        merged = dict(self.policy.definition) if self.policy is not None else {}
        for key, value in self.operator.definition.items() if self.operator is not None else ():
            merged[key] = min(merged[key], value) if key in merged else value
        return merged


NONE_IN_FORCE = InForce()


def effective(declared: Table, in_force: InForce) -> QueueArguments:
    """Return the arguments in force for a queue: those declared, with policies applied."""
    arguments = parse(declared)
    before = BEFORE_ARGUMENTS[type_of(declared).name]
    changes: dict[str, Any] = {}
    for key, value in in_force.definition.items():
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
