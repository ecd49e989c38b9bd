"""Policies and operator policies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta, field

from broker.admin.kinds import policy_check
from broker.admin.kinds.change_event import ChangeEvent, parameter_cleared, parameter_set
from broker.admin.kinds.definition_entry import DefinitionEntry, Name
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.entities.arguments.name_patterns import NamePattern
from broker.entities.arguments.policies import Policy
from broker.entities.node.broker import Broker
from broker.entities.node.parameters import OPERATOR_POLICY
from broker.entities.scheduling.future import Future
from storage.definitions.definition_rows import Definitions, PolicyRow, Put


class PolicyEntry(DefinitionEntry, frozen=True):
    """A policy, or the value of an operator policy's parameter."""

    vhost: Name
    name: Name
    pattern: str
    definition: dict[str, Any] | list[tuple[str, Any]]
    """RabbitMQ's command line writes pairs instead of an object for operator policies."""
    priority: Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] = 0
    apply_to: str = field(default="all", name="apply-to")

    def check(self, broker: Broker, *, operator: bool = False) -> None:
        """Raise ValidationFailed with all problems of the policy."""
        definition = dict(self.definition)
        given = self.name, self.pattern, self.apply_to, definition, self.priority
        policy_check.checked(*given, broker.personality, operator=operator)
        where = self.vhost, self.name, self.apply_to, definition
        policy_check.rehearse(broker.watch, *where, operator=operator)

    def changes(self, broker: Broker, *, operator: bool = False) -> Iterator[Put]:
        """Yield the policy."""
        definition = json.dumps(dict(self.definition))
        yield Put(PolicyRow(self.vhost, self.name, self.pattern, self.apply_to, definition, self.priority, operator))


def exported(stored: Definitions) -> Iterator[dict[str, Any]]:
    """Yield all policies but operator policies. The store also has policies that a start could not apply."""
    rows = (row for row in stored.policies if not row.operator)
    return ({"vhost": row.vhost, "name": row.name, **value_of_row(row)} for row in rows)


def exported_of_operators(stored: Definitions) -> Iterator[dict[str, Any]]:
    """Yield operator policies, as the parameters that RabbitMQ keeps them in."""
    for row in stored.policies:
        if row.operator:
            value = value_of_row(row)
            yield {"vhost": row.vhost, "component": OPERATOR_POLICY, "name": row.name, "value": value}


def value_of(policy: Policy) -> dict[str, Any]:
    """Return a policy without its name, as RabbitMQ's parameters have it."""
    return _value(policy.pattern.pattern, policy.apply_to, policy.definition, policy.priority)


def value_of_row(row: PolicyRow) -> dict[str, Any]:
    """Return the same of a row, which need not be a policy that can be applied."""
    return _value(row.pattern, row.apply_to, json.loads(row.definition), row.priority)


def _value(pattern: str, apply_to: str, definition: Mapping[str, Any], priority: int) -> dict[str, Any]:
    return {"pattern": pattern, "apply-to": apply_to, "definition": definition, "priority": priority}


# Effect


def _put(broker: Broker, row: PolicyRow) -> Future[None]:
    policy = Policy(row.name, NamePattern(row.pattern), row.apply_to, json.loads(row.definition), row.priority)
    return broker.vhosts[row.vhost].policy_application.put(policy, operator=row.operator)


def _delete(broker: Broker, by: str, *, vhost: str, name: str, operator: bool) -> Future[None]:
    return broker.vhosts[vhost].policy_application.remove(name, operator=operator)


# Events


def _put_events(broker: Broker, row: PolicyRow) -> Iterator[ChangeEvent]:
    value = value_of_row(row)
    if row.operator:
        yield parameter_set(row.vhost, OPERATOR_POLICY, row.name, value)
    yield ChangeEvent("policy.set", {"name": row.name, "vhost": row.vhost, **value})


def _delete_events(broker: Broker, *, vhost: str, name: str, operator: bool) -> Iterator[ChangeEvent]:
    if operator:
        yield parameter_cleared(vhost, OPERATOR_POLICY, name)
    yield ChangeEvent("operator.policy.cleared" if operator else "policy.cleared", {"name": name, "vhost": vhost})


POLICIES = DefinitionKind(PolicyRow, _put, _delete, _put_events, _delete_events)
