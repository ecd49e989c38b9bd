"""Runtime parameters: of virtual hosts, where policies and limits are known as such too, and of the whole broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.kinds.parameter_kind import parameters_of
from broker.admin.protocol import ValidationFailed, invalid, not_found
from broker.admin.settings import limit_admin, policy_admin
from broker.admin.views.listing import Row, View, cells, vhosts
from broker.entities.vhosts.event_exchange import CLI
from broker.entities.vhosts.parameters import (
    CLUSTER_ID,
    CLUSTER_NAME,
    LIMITS,
    OPERATOR_POLICY,
    POLICY,
    SHOVEL,
    VHOST_LIMITS,
)
from storage.definitions.definition_rows import GlobalParameterRow, ParameterRow, Put, delete


def _of_vhosts(administration: Administration, arguments: Arguments) -> list[Row]:
    """Operator policies and limits are among them; policies have a list of their own."""
    chosen = vhosts(administration, arguments)
    return [row._asdict() for vhost in chosen for row in parameters_of(administration.broker, vhost)]


def _of_broker(administration: Administration, arguments: Arguments) -> list[Row]:
    return [{"name": name, "value": value} for name, value in administration.broker.parameters.everywhere.items()]


PARAMETER_COLUMNS, GLOBAL_PARAMETER_COLUMNS = ("vhost", "component", "name", "value"), ("name", "value")
PARAMETERS = View(_of_vhosts, cells(*PARAMETER_COLUMNS), null=None)
GLOBAL_PARAMETERS = View(_of_broker, cells(*GLOBAL_PARAMETER_COLUMNS), null=None)


async def set_parameter(administration: Administration, arguments: Arguments) -> None:
    """Set a parameter of a component that there is: RabbitMQ's others belong to plugins."""
    vhost, component = administration.vhost(arguments.text("vhost")).name, arguments.text("component")
    name, value = arguments.name("name"), arguments.json("value")
    if component == POLICY:
        raise invalid("policies may not be set using this method")
    if component == OPERATOR_POLICY:
        if not isinstance(value, Mapping):
            raise ValidationFailed([f"{name} not a list"])
        missing = [key for key in ("priority", "pattern", "definition") if key not in value]
        if missing:
            raise ValidationFailed([f'Key "{key}" not found in {name}' for key in missing])
        policy = {"apply_to": value.get("apply-to", "all"), **{key: value[key] for key in _OF_POLICIES}}
        await policy_admin.set_operator_policy(administration, Arguments({"vhost": vhost, "name": name, **policy}))
    elif component == SHOVEL:
        await _set_shovel(administration, vhost, name, value)
    elif component == VHOST_LIMITS and name == LIMITS:
        await limit_admin.set_vhost_limits(administration, Arguments({"name": vhost, "limits": value}))
    else:
        raise ValidationFailed([f"component {component} not found"])


async def _set_shovel(administration: Administration, vhost: str, name: str, value: Any) -> None:
    # Imported here: most brokers have no shovel, and this brings along what reads URIs.
    from broker.admin.kinds import shovel_check

    problems = shovel_check.problems(name, value, partial(_refusal, administration))
    if problems:
        raise ValidationFailed(problems)
    await administration.change(Put(ParameterRow(vhost, SHOVEL, name, json.dumps(value))))


def _refusal(administration: Administration, vhost: str) -> str:
    """Why a shovel of the acting user may not connect to a virtual host; commands may go anywhere."""
    may = administration.by == CLI or administration.users.may_enter(administration.by, vhost)
    return (
        ""
        if may and vhost in administration.broker.vhosts
        else f'user "{administration.by}" may not connect to vhost "{vhost}"'
    )


async def clear_parameter(administration: Administration, arguments: Arguments) -> None:
    """Remove a parameter; one that came with a definitions file, too."""
    vhost = administration.vhost(arguments.text("vhost"))
    component, name = arguments.text("component"), arguments.text("name")
    if component == POLICY:
        raise invalid("policies may not be cleared using this method")
    if not any(row.name == name for row in parameters_of(administration.broker, vhost, component)):
        raise not_found("Parameter does not exist")
    if component == OPERATOR_POLICY:
        await policy_admin.clear_operator_policy(administration, Arguments({"vhost": vhost.name, "name": name}))
    elif component == VHOST_LIMITS:
        await limit_admin.clear_vhost_limits(administration, Arguments({"name": vhost.name, "limits": []}))
    else:
        await administration.change(delete(ParameterRow, vhost=vhost.name, component=component, name=name))


async def set_global_parameter(administration: Administration, arguments: Arguments) -> None:
    """Set a parameter of the whole broker to any JSON value."""
    row = GlobalParameterRow(arguments.name("name"), json.dumps(arguments.json("value")))
    await administration.change(Put(row))


async def clear_global_parameter(administration: Administration, arguments: Arguments) -> None:
    """Remove a parameter of the whole broker."""
    name = arguments.text("name")
    if name == CLUSTER_ID:
        raise invalid(f"{CLUSTER_ID} cannot be cleared: the broker is known by it")
    if name not in administration.broker.parameters.everywhere:
        raise not_found("Parameter does not exist")
    await administration.change(delete(GlobalParameterRow, name=name))


async def set_cluster_name(administration: Administration, arguments: Arguments) -> None:
    """Call the broker something else than its settings do."""
    row = GlobalParameterRow(CLUSTER_NAME, json.dumps(arguments.name("name")))
    await administration.change(Put(row))


_OF_POLICIES = ("pattern", "definition", "priority")
