"""Runtime parameters of virtual hosts, global parameters, and the name of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from broker.admin.commands.parameter_admin import (
    GLOBAL_PARAMETER_COLUMNS,
    PARAMETER_COLUMNS,
    ClearGlobalParameter,
    ClearParameter,
    SetClusterName,
    SetGlobalParameter,
    SetParameter,
)
from broker.admin.kinds.parameter_kind import parameters_of
from broker.admin.views.columns import columns_of
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import empty, in_json, not_found, vhost_not_found

Row = Mapping[str, Any]
COLUMNS, GLOBAL_COLUMNS = columns_of(*PARAMETER_COLUMNS), columns_of(*GLOBAL_PARAMETER_COLUMNS)


async def list_parameters(call: ApiCall) -> Response:
    """List parameters of virtual hosts, with operator policies and limits; policies only if the path names them."""
    component = call.names.get("component")
    rows = [
        parameter._asdict() for vhost in call.vhosts() for parameter in parameters_of(call.broker, vhost, component)
    ]
    return await list_response(rows, COLUMNS, call.list_query(), _name)


def _name(row: Row) -> str:
    return str(row["name"])


async def show_parameter(call: ApiCall) -> Response:
    """Show a parameter."""
    found = _find(call)
    if found is None:
        raise not_found()
    return in_json(call.chosen(found))


def _find(call: ApiCall) -> dict[str, Any] | None:
    vhost = call.broker.vhosts.get(call.names["vhost"])
    found = () if vhost is None else parameters_of(call.broker, vhost, call.names["component"])
    return next((each._asdict() for each in found if each.name == call.names["name"]), None)


async def put_parameter(call: ApiCall) -> Response:
    """Set a parameter."""
    existed = _find(call)
    call.assert_vhost()
    fields = await call.fields()
    fields.require("value")
    with where_absent(vhost_not_found):
        await call.change(SetParameter.parse({**call.names, "value": fields.values["value"]}))
    return empty(204 if existed else 201)


async def delete_parameter(call: ApiCall) -> Response:
    """Remove a parameter."""
    await call.change(ClearParameter.parse(call.names))
    return empty(204)


# Of the whole broker


async def list_global_parameters(call: ApiCall) -> Response:
    """List global parameters."""
    shown = call.broker.parameters.shown_everywhere(call.api.series)
    rows = [{"name": name, "value": value} for name, value in sorted(shown.items())]
    return await list_response(rows, GLOBAL_COLUMNS, call.list_query(), _name)


async def show_global_parameter(call: ApiCall) -> Response:
    """Show a global parameter."""
    name, values = call.names["name"], call.broker.parameters.shown_everywhere(call.api.series)
    if name not in values:
        raise not_found()
    return in_json(call.chosen({"value": values[name], "name": name}))


async def put_global_parameter(call: ApiCall) -> Response:
    """Set a global parameter to any value."""
    name, fields = call.names["name"], await call.fields()
    fields.require("value")
    existed = name in call.broker.parameters.everywhere
    await call.change(SetGlobalParameter.parse({"name": name, "value": fields.values["value"]}))
    return empty(204 if existed else 201)


async def delete_global_parameter(call: ApiCall) -> Response:
    """Remove a global parameter."""
    await call.change(ClearGlobalParameter(name=call.names["name"]))
    return empty(204)


async def show_cluster_name(call: ApiCall) -> Response:
    """Show the name of the cluster."""
    return in_json({"name": call.api.cluster_name})


async def put_cluster_name(call: ApiCall) -> Response:
    """Set the name of the cluster."""
    fields = await call.fields()
    fields.require("name")
    await call.change(SetClusterName.parse({"name": fields.values["name"]}))
    return empty(204)


RESOURCES: list[Resource] = [
    resource("/api/parameters", GET=(Tag.POLICYMAKER, list_parameters)),
    resource("/api/parameters/{component}", GET=(Tag.POLICYMAKER, list_parameters)),
    resource("/api/parameters/{component}/{vhost}", in_vhost=True, GET=(Tag.POLICYMAKER, list_parameters)),
    resource(
        "/api/parameters/{component}/{vhost}/{name}",
        in_vhost=True,
        setting=True,
        GET=(Tag.POLICYMAKER, show_parameter),
        PUT=(Tag.POLICYMAKER, put_parameter),
        DELETE=(Tag.POLICYMAKER, delete_parameter),
    ),
    resource("/api/global-parameters", GET=(Tag.POLICYMAKER, list_global_parameters)),
    resource(
        "/api/global-parameters/{name}",
        GET=(Tag.POLICYMAKER, show_global_parameter),
        PUT=(Tag.POLICYMAKER, put_global_parameter),
        DELETE=(Tag.POLICYMAKER, delete_global_parameter),
    ),
    resource("/api/cluster-name", GET=(Tag.ANY, show_cluster_name), PUT=(Tag.ADMINISTRATOR, put_cluster_name)),
]
