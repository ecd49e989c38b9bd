"""Runtime parameters: of virtual hosts, which include policies and limits, and of the whole broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from broker.admin.commands.admin_command import AdminChange, RowList, Text, VhostList
from broker.admin.commands.argument_values import json_value, named
from broker.admin.commands.limit_admin import ClearVhostLimits, SetVhostLimits
from broker.admin.commands.policy_admin import ClearOperatorPolicy, SetOperatorPolicy
from broker.admin.protocol import ValidationFailed, invalid, not_found
from broker.entities.node.parameters import (
    CLUSTER_ID,
    CLUSTER_NAME,
    LIMITS,
    OPERATOR_POLICY,
    POLICY,
    SHOVEL,
    VHOST_LIMITS,
)
from storage.definitions.definition_rows import GlobalParameterRow, ParameterRow, Put, delete

if TYPE_CHECKING:
    from broker.admin.administration import Administration

PARAMETER_COLUMNS, GLOBAL_PARAMETER_COLUMNS = ("vhost", "component", "name", "value"), ("name", "value")
_POLICY_KEYS = ("pattern", "definition", "priority")


class ListParameters(VhostList, RowList):
    """List parameters, with operator policies and limits among them; policies have a list of their own."""

    row_columns: ClassVar[tuple[str, ...]] = PARAMETER_COLUMNS
    null: ClassVar[str | None] = None

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        from broker.admin.kinds.parameter_kind import parameters_of

        chosen = administration.vhosts(self.vhost)
        return [row._asdict() for vhost in chosen for row in parameters_of(administration.broker, vhost)]


class ListGlobalParameters(RowList):
    """List the parameters of the whole broker."""

    row_columns: ClassVar[tuple[str, ...]] = GLOBAL_PARAMETER_COLUMNS
    null: ClassVar[str | None] = None

    def rows(self, administration: Administration) -> list[dict[str, Any]]:
        broker = administration.broker
        shown = broker.parameters.shown_everywhere(broker.personality.series)
        return [{"name": name, "value": value} for name, value in shown.items()]


class SetParameter(AdminChange):
    """Set a parameter of a known component. RabbitMQ's other components belong to plugins."""

    log_words: ClassVar[str] = "parameter '{name}' of '{component}' in virtual host '{vhost}' is set"
    vhost: Text
    component: Text
    name: Text
    value: object

    async def apply(self, administration: Administration) -> None:
        vhost, name = administration.vhost(self.vhost).name, named(self.name)
        value = json_value(self.value, "value")
        if self.component == POLICY:
            raise invalid("policies may not be set using this method")
        if self.component == OPERATOR_POLICY:
            await self._operator_policy(value).apply(administration)
        elif self.component == SHOVEL:
            await _put_shovel(administration, vhost, name, value)
        elif self.component == VHOST_LIMITS and name == LIMITS:
            await SetVhostLimits(name=vhost, limits=value).apply(administration)
        else:
            raise ValidationFailed([f"component {self.component} not found"])

    def _operator_policy(self, value: object) -> SetOperatorPolicy:
        if not isinstance(value, Mapping):
            raise ValidationFailed([f"{self.name} not a list"])
        missing = [key for key in ("priority", "pattern", "definition") if key not in value]
        if missing:
            raise ValidationFailed([f'Key "{key}" not found in {self.name}' for key in missing])
        policy = {"apply_to": value.get("apply-to", "all"), **{key: value[key] for key in _POLICY_KEYS}}
        return SetOperatorPolicy.parse({"vhost": self.vhost, "name": self.name, **policy})


async def _put_shovel(administration: Administration, vhost: str, name: str, value: Any) -> None:
    from broker.admin.kinds import shovel_check

    problems = shovel_check.problems(
        name, value, partial(_refusal, administration), administration.broker.personality.series
    )
    if problems:
        raise ValidationFailed(problems)
    await administration.change(Put(ParameterRow(vhost, SHOVEL, name, json.dumps(value))))


def _refusal(administration: Administration, vhost: str) -> str:
    """Return why a shovel of the acting user may not connect to a virtual host; empty if it may."""
    # The command line acts for no user, and has access to everything.
    from broker.entities.exchanges.event_exchange import CLI

    may = administration.by == CLI or administration.users.may_enter(administration.by, vhost)
    if may and vhost in administration.broker.vhosts:
        return ""
    return f'user "{administration.by}" may not connect to vhost "{vhost}"'


class ClearParameter(AdminChange):
    """Remove a parameter, also one that was imported."""

    log_words: ClassVar[str] = "parameter '{name}' of '{component}' in virtual host '{vhost}' is cleared"
    vhost: Text
    component: Text
    name: Text

    async def apply(self, administration: Administration) -> None:
        from broker.admin.kinds.parameter_kind import parameters_of

        vhost, component, name = administration.vhost(self.vhost), self.component, self.name
        if component == POLICY:
            raise invalid("policies may not be cleared using this method")
        if not any(row.name == name for row in parameters_of(administration.broker, vhost, component)):
            raise not_found("Parameter does not exist")
        if component == OPERATOR_POLICY:
            await ClearOperatorPolicy(vhost=vhost.name, name=name).apply(administration)
        elif component == VHOST_LIMITS:
            await ClearVhostLimits(name=vhost.name, limits=[]).apply(administration)
        else:
            await administration.change(delete(ParameterRow, vhost=vhost.name, component=component, name=name))


class SetGlobalParameter(AdminChange):
    """Set a parameter of the whole broker to a JSON value."""

    log_words: ClassVar[str] = "global parameter '{name}' is set"
    name: Text
    value: object

    async def apply(self, administration: Administration) -> None:
        row = GlobalParameterRow(named(self.name), json.dumps(json_value(self.value, "value")))
        await administration.change(Put(row))


class ClearGlobalParameter(AdminChange):
    """Remove a parameter of the whole broker."""

    log_words: ClassVar[str] = "global parameter '{name}' is cleared"
    name: Text

    async def apply(self, administration: Administration) -> None:
        if self.name == CLUSTER_ID:
            raise invalid(f"{CLUSTER_ID} cannot be cleared: the broker is known by it")
        if self.name not in administration.broker.parameters.everywhere:
            raise not_found("Parameter does not exist")
        await administration.change(delete(GlobalParameterRow, name=self.name))


class SetClusterName(AdminChange):
    """Set the name of the broker, which otherwise its settings say."""

    log_words: ClassVar[str] = "cluster name is '{name}'"
    name: Text

    async def apply(self, administration: Administration) -> None:
        await administration.change(Put(GlobalParameterRow(CLUSTER_NAME, json.dumps(named(self.name)))))
