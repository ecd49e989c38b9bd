"""Policies: what an operator says of queues and exchanges by their names, instead of each declaration saying it.

An entity has at most one policy and one operator policy at a time: of those whose pattern is found in its name,
the one of the highest priority. Of what both say, and of what both and a declaration say, the smaller number
counts; where there is nothing to compare, the declaration wins. Types of queue have exceptions. RabbitMQ 3.10 on
the wire is the model. Which of two policies of one priority it takes is an accident of its hashing; here it is the
first by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.entities.arguments.name_patterns import NamePattern
from broker.entities.arguments.queue_arguments import EXPIRY_MAX_MILLISECONDS, QueueArguments, parse
from broker.entities.arguments.queue_types import CLASSIC, QUORUM, STREAM, type_of
from broker.wire.field_tables import Table

EXCHANGE = "exchange"
"""What a policy may apply to, beside the types of queue."""

_ALL_QUEUES = frozenset({CLASSIC.name, QUORUM.name, STREAM.name})
APPLY_TO: dict[str, frozenset[str]] = {
    "queues": _ALL_QUEUES,
    "exchanges": frozenset({EXCHANGE}),
    "classic_queues": frozenset({CLASSIC.name}),
    "quorum_queues": frozenset({QUORUM.name}),
    "streams": frozenset({STREAM.name}),
    "all": _ALL_QUEUES | {EXCHANGE},
}
"""Those for one type of queue are known to RabbitMQ since 3.12."""

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
"""Keys that keep a policy away from a type of queue: one of them, and the whole policy does not apply."""

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
"""Keys of which the smaller value counts, wherever several have a say."""

BEFORE_ARGUMENTS: dict[str, frozenset[str]] = {
    CLASSIC.name: frozenset(),
    QUORUM.name: frozenset({"expires", "overflow"}),
    STREAM.name: frozenset({"max-length-bytes"}),
}
"""Keys of which a policy's value counts before an argument's, by type of queue."""


class Policy(NamedTuple):
    """A policy, or an operator policy. `definition` has been checked: its keys are known, its values possible."""

    name: str
    pattern: NamePattern
    apply_to: str
    definition: Mapping[str, Any]
    priority: int

    def is_for(self, kind: str) -> bool:
        """Whether it could be in force for an entity of this kind, if the name agrees."""
        return kind in APPLY_TO[self.apply_to] and UNSUPPORTED[kind].isdisjoint(self.definition)


class InForce(NamedTuple):
    """The policies of one entity."""

    policy: Policy | None = None
    operator: Policy | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """What they say together. An operator policy can lower a number, or say what the other does not."""
        merged = dict(self.policy.definition) if self.policy is not None else {}
        for key, value in self.operator.definition.items() if self.operator is not None else ():
            merged[key] = min(merged[key], value) if key in merged else value
        return merged


NONE_IN_FORCE = InForce()


def effective(declared: Table, in_force: InForce) -> QueueArguments:
    """What holds for a queue: its arguments, and what policies add to them or make smaller."""
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
        changes[field] = min(changes[field], EXPIRY_MAX_MILLISECONDS)  # what arguments are held to, policies are not
    return arguments._replace(**changes)


_TIMES = frozenset({"message_ttl", "expires"})


def alternate(declared: Table, in_force: InForce) -> str | None:
    """The alternate exchange that holds for an exchange: its argument's before its policy's."""
    argument = declared.get("alternate-exchange")
    if argument is None:
        name: str = in_force.definition.get("alternate-exchange", "")
    else:
        name = bytes(argument.value).decode("utf-8", "surrogateescape")
    return name or None
