"""Runtime parameters of virtual hosts and of the whole broker.

In definitions files a virtual host's limits and operator policies are parameters, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.admin.kinds import limit_kind, policy_kind
from broker.admin.kinds.change_event import ChangeEvent, parameter_cleared, parameter_set
from broker.admin.kinds.definition_entry import DefinitionEntry, Name, converted
from broker.admin.kinds.definition_kind import DefinitionKind
from broker.admin.kinds.policy_kind import PolicyEntry, value_of
from broker.admin.protocol import ValidationFailed, invalid
from broker.credentials import without_credentials
from broker.entities.arguments.personality import Series
from broker.entities.node.broker import Broker
from broker.entities.node.parameters import CLUSTER_TAGS, LIMITS, OPERATOR_POLICY, POLICY, SHOVEL, VHOST_LIMITS
from broker.entities.node.user_limits import OF_VHOSTS
from broker.entities.vhosts.vhost import VHost
from storage.definitions.definition_rows import Definitions, Delete, GlobalParameterRow, ParameterRow, Put


class ParameterEntry(DefinitionEntry, frozen=True):
    """A runtime parameter of a virtual host."""

    vhost: Name
    component: Name
    name: Name
    value: Any

    def check(self, broker: Broker) -> None:
        """Raise AdministrationError for a value that its component does not take."""
        if self.component == VHOST_LIMITS:
            limit_kind.checked(self.value or {}, OF_VHOSTS, "limits")
        elif self.component == OPERATOR_POLICY:
            self.operator_policy().check(broker, operator=True)
        elif self.component == SHOVEL:
            self._check_shovel(broker.personality.series)

    def _check_shovel(self, series: Series) -> None:
        # Imported here: most brokers have no shovel, and this brings along what reads URIs.
        from broker.admin.kinds import shovel_check

        if shovel_check.foreign_protocol(self.value):
            return
        problems = shovel_check.problems(self.name, self.value, lambda vhost: "", series)
        if problems:
            raise ValidationFailed(problems) if series >= (4, 0) else invalid("; ".join(problems))

    def changes(self, broker: Broker) -> Iterator[Put | Delete]:
        """Yield the parameter, or the limits or the operator policy that it stands for."""
        if self.component == VHOST_LIMITS:
            yield from limit_kind.replacing(broker, self.vhost, dict(self.value or {}))
        elif self.component == OPERATOR_POLICY:
            yield from self.operator_policy().changes(broker, operator=True)
        else:
            yield Put(ParameterRow(self.vhost, self.component, self.name, json.dumps(self.value)))

    def operator_policy(self) -> PolicyEntry:
        """Return the operator policy that it stands for. Raises AdministrationError `invalid`."""
        if not isinstance(self.value, dict):
            raise invalid("value: expected an operator policy")
        return converted({**self.value, "vhost": self.vhost, "name": self.name}, PolicyEntry)


class GlobalParameterEntry(DefinitionEntry, frozen=True):
    """A runtime parameter of the whole broker."""

    name: Name
    value: Any

    def changes(self, broker: Broker) -> Iterator[Put]:
        """Yield the parameter."""
        yield Put(GlobalParameterRow(self.name, json.dumps(self.value)))


def exported(broker: Broker, stored: Definitions) -> Iterator[dict[str, Any]]:
    """Yield the parameters of all virtual hosts as definitions files have them."""
    for row in stored.parameters:
        yield {**row._asdict(), "value": json.loads(row.value)}
    yield from limit_kind.exported(broker)
    yield from policy_kind.exported_of_operators(stored)


def exported_globally(broker: Broker, stored: Definitions) -> Iterator[dict[str, Any]]:
    """Yield the parameters of the whole broker as definitions files have them, the cluster's id excepted."""
    written = {row.name: json.loads(row.value) for row in stored.global_parameters}
    if broker.personality.series >= (4, 0):
        written.setdefault(CLUSTER_TAGS, [])
    return ({"name": name, "value": value} for name, value in written.items())


class RuntimeParameter(NamedTuple):
    """A parameter of a virtual host; the value is what JSON can hold."""

    vhost: str
    component: str
    name: str
    value: Any


def parameters_of(broker: Broker, vhost: VHost, component: str | None = None) -> Iterator[RuntimeParameter]:
    """Yield the parameters of a virtual host: those of one component, or (None) all but policies."""
    name = vhost.name
    if component in (None, VHOST_LIMITS) and broker.user_limits.vhosts.get(name):
        yield RuntimeParameter(name, VHOST_LIMITS, LIMITS, broker.user_limits.vhosts[name])
    for kind, operator in ((POLICY, False), (OPERATOR_POLICY, True)):
        if component == kind or (component is None and operator):
            found = vhost.policy_application.policies.of(operator=operator).values()
            yield from (RuntimeParameter(name, kind, policy.name, value_of(policy)) for policy in found)
    for (of, kind, parameter), value in broker.parameters.of_vhosts.items():
        if of == name and component in (None, kind):
            yield RuntimeParameter(name, kind, parameter, value)


# Effect


def _put(broker: Broker, row: ParameterRow) -> None:
    broker.parameters.put(row.vhost, row.component, row.name, json.loads(row.value))


def _delete(broker: Broker, by: str, *, vhost: str, component: str, name: str) -> None:
    broker.parameters.discard(vhost, component, name)


def _put_global(broker: Broker, row: GlobalParameterRow) -> None:
    broker.parameters.everywhere[row.name] = json.loads(row.value)


def _delete_global(broker: Broker, by: str, *, name: str) -> None:
    broker.parameters.everywhere.pop(name, None)


# Events


def _put_events(broker: Broker, row: ParameterRow) -> Iterator[ChangeEvent]:
    vhost, component, name, value = row
    yield parameter_set(vhost, component, name, json.loads(value))


def _delete_events(broker: Broker, *, vhost: str, component: str, name: str) -> Iterator[ChangeEvent]:
    yield parameter_cleared(vhost, component, name)


def _put_global_events(broker: Broker, row: GlobalParameterRow) -> Iterator[ChangeEvent]:
    value = without_credentials(json.loads(row.value))
    yield ChangeEvent("parameter.set", {**_GLOBAL, "name": row.name, "value": value})


def _delete_global_events(broker: Broker, *, name: str) -> Iterator[ChangeEvent]:
    yield ChangeEvent("parameter.cleared", {**_GLOBAL, "name": name})


_GLOBAL = {"component": "global"}
PARAMETERS = DefinitionKind(ParameterRow, _put, _delete, _put_events, _delete_events)
GLOBAL_PARAMETERS = DefinitionKind(
    GlobalParameterRow, _put_global, _delete_global, _put_global_events, _delete_global_events
)
