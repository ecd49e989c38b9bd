"""Shovels and their states. Dynamic shovels are set as parameters; static ones are shown to administrators only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from broker.admin.commands.shovel_admin import SHOVEL_COLUMNS, DeleteShovel, RestartShovel
from broker.admin.views.columns import columns_of
from broker.credentials import without_credentials
from broker.entities.node.parameters import SHOVEL
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.list_query import list_response
from broker.management.resources import Handler, Resource, resource
from broker.management.responses import VARY_BEFORE, empty, in_json, not_found

COLUMNS = columns_of("node", *SHOVEL_COLUMNS)
FIGURES = ("blocked_status", "forwarded", "pending", "remaining", "remaining_unacked")
COLUMNS_OF_4 = columns_of("node", *SHOVEL_COLUMNS, *FIGURES)


async def list_shovels(call: ApiCall) -> Response:
    """List the shovels that the user sees, with their states."""
    vhosts = {vhost.name for vhost in call.vhosts()}
    rows = [row for row in call.api.administration.shovels.rows() if _shown(call, row, vhosts)]
    columns = COLUMNS_OF_4 if call.api.series >= (4, 0) else COLUMNS
    return await list_response(rows, columns, call.list_query(), lambda row: str(row["name"]))


def _shown(call: ApiCall, row: Mapping[str, Any], vhosts: set[str]) -> bool:
    if "vhost" in row:
        return row["vhost"] in vhosts
    return call.account.administrates and "vhost" not in call.names


async def show_shovel(call: ApiCall) -> Response:
    """Show the parameter of a dynamic shovel, as RabbitMQ 3.13 does; its passwords only to those who may read them."""
    vhost, name = call.vhost.name, call.names["name"]
    value = call.broker.parameters.of_vhosts.get((vhost, SHOVEL, name))
    if value is None:
        raise not_found()
    if not call.account.reads_parameters:
        value = without_credentials(value)
    return in_json(call.chosen({"value": value, "vhost": vhost, "component": SHOVEL, "name": name}))


async def delete_shovel(call: ApiCall) -> Response:
    """Remove a dynamic shovel. In RabbitMQ 4 there may be none."""
    there = (call.vhost.name, SHOVEL, call.names["name"]) in call.broker.parameters.of_vhosts
    if there or call.api.series < (4, 0):
        await call.change(DeleteShovel.parse(call.names))
    return empty(204)


async def restart_shovel(call: ApiCall) -> Response:
    """Restart a dynamic shovel."""
    await call.change(RestartShovel.parse(call.names))
    return empty(204)


def _one(path: str, delete: Handler) -> list[Resource]:
    """Return the routes of a shovel: in RabbitMQ 4 a policymaker may remove and restart it."""
    shown, of_3, of_4 = (Tag.MONITORING, show_shovel), (Tag.MONITORING, delete), (Tag.POLICYMAKER, delete)
    return [
        resource(path, in_vhost=True, setting=True, vary=VARY_BEFORE, GET=shown, DELETE=of_3, until=(4, 0)),
        resource(path, in_vhost=True, monitored=True, vary=VARY_BEFORE, GET=shown, DELETE=of_4, since=(4, 0)),
    ]


RESOURCES: list[Resource] = [
    resource("/api/shovels", vary=VARY_BEFORE, GET=(Tag.MONITORING, list_shovels)),
    resource(
        "/api/shovels/{vhost}", in_vhost=True, monitored=True, vary=VARY_BEFORE, GET=(Tag.MONITORING, list_shovels)
    ),
    *_one("/api/shovels/vhost/{vhost}/{name}", delete_shovel),
    *_one("/api/shovels/vhost/{vhost}/{name}/restart", restart_shovel),
]
