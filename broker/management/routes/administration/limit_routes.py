"""Limits of virtual hosts and of users."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from broker.admin.commands.limit_admin import ClearUserLimits, ClearVhostLimits, SetUserLimits, SetVhostLimit
from broker.admin.views.columns import columns_of
from broker.entities.node.user_limits import OF_USERS, OF_VHOSTS
from broker.management.access import NOT_IN_VHOST, NOT_THE_OBJECT, Tag, denied, hidden
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, Problem, bad_request, empty, not_found, vhost_not_found
from broker.management.routes.administration.user_routes import user_of

OF_VHOST, OF_USER = columns_of("vhost", "value"), columns_of("user", "value")


async def list_vhost_limits(call: ApiCall) -> Response:
    """List the limits of virtual hosts that have some: of all that the user may list, or of one."""
    if "vhost" in call.names:
        names = [call.vhost.name]
        if not call.account.lists(names[0]):
            raise hidden() if call.broker.personality.hidden_vhosts else denied(call.account.name, NOT_IN_VHOST)
    else:
        names = [name for name in sorted(call.broker.vhosts) if call.account.lists(name)]
    limits = call.broker.user_limits.vhosts
    rows: list[dict[str, Any]] = [{"vhost": name, "value": limits[name]} for name in names if limits.get(name)]
    return await list_response(rows, OF_VHOST, call.list_query(), lambda row: str(row["vhost"]))


async def put_vhost_limit(call: ApiCall) -> Response:
    """Set a limit of a virtual host."""
    vhost, fields = call.names["vhost"], await call.fields()
    fields.require("value")
    with where_absent(vhost_not_found):
        await call.change(
            SetVhostLimit.parse({"name": vhost, "limit": call.names["name"], "value": fields.values["value"]})
        )
    return empty(204)


async def delete_vhost_limit(call: ApiCall) -> Response:
    """Remove a limit of a virtual host, if it is set."""
    vhost, name = call.names["vhost"], call.names["name"]
    if vhost not in call.broker.vhosts:
        raise _absent(call)
    if name in OF_VHOSTS:
        await call.change(ClearVhostLimits(name=vhost, limits=[name]))
    return empty(204)


async def list_user_limits(call: ApiCall) -> Response:
    """List the limits of users that have some. Only an administrator sees those of others; in RabbitMQ 4 a monitor."""
    names = [call.names["user"]] if "user" in call.names else sorted(call.broker.users.by_name)
    if call.api.series >= (4, 0):
        names = _names_of_4(call, names)
    elif not call.account.administrates:
        names = [name for name in names if name == call.account.name]
    elif "user" in call.names:
        names = [user_of(call).name]
    limits = call.broker.user_limits.users
    rows: list[dict[str, Any]] = [{"user": name, "value": limits[name]} for name in names if limits.get(name)]
    return await list_response(rows, OF_USER, call.list_query(), lambda row: str(row["user"]))


def _names_of_4(call: ApiCall, every: list[str]) -> list[str]:
    """Return the users whose limits are listed. Raises Problem 401 or 404."""
    if "user" not in call.names:
        call.account.require(Tag.ADMINISTRATOR)
        return every
    if not (call.account.monitors or call.names["user"] == call.account.name):
        raise denied(call.account.name, NOT_THE_OBJECT)
    return [user_of(call).name]


def _absent(call: ApiCall) -> Problem:
    """404 for a limit of something that does not exist, the same for users."""
    return vhost_not_found() if call.api.series >= (4, 0) else not_found()


async def put_user_limit(call: ApiCall) -> Response:
    """Set a limit of a user."""
    fields = await call.fields()
    fields.require("value")
    limit = {call.names["name"]: fields.values["value"]}
    user = call.names["user"]
    with where_absent(lambda reason: bad_request(["no_such_user", user] if call.api.series >= (4, 0) else reason)):
        await call.change(SetUserLimits.parse({"name": user, "limits": limit}))
    return empty(204)


async def delete_user_limit(call: ApiCall) -> Response:
    """Remove a limit of a user, if it is set."""
    user, name = call.names["user"], call.names["name"]
    if user not in call.broker.users.by_name:
        raise _absent(call)
    if name in OF_USERS:
        await call.change(ClearUserLimits(name=user, limits=[name]))
    return empty(204)


RESOURCES: list[Resource] = [
    resource("/api/vhost-limits", headless=True, vary=VARY_OF_ONE_TYPE, GET=(Tag.ANY, list_vhost_limits)),
    resource("/api/vhost-limits/{vhost}", headless=True, vary=VARY_OF_ONE_TYPE, GET=(Tag.ANY, list_vhost_limits)),
    resource(
        "/api/vhost-limits/{vhost}/{name}",
        vary=VARY_OF_ONE_TYPE,
        PUT=(Tag.ADMINISTRATOR, put_vhost_limit),
        DELETE=(Tag.ADMINISTRATOR, delete_vhost_limit),
    ),
    resource("/api/user-limits", headless=True, vary=VARY_OF_ONE_TYPE, GET=(Tag.ANY, list_user_limits)),
    resource("/api/user-limits/{user}", headless=True, vary=VARY_OF_ONE_TYPE, GET=(Tag.ANY, list_user_limits)),
    resource(
        "/api/user-limits/{user}/{name}",
        vary=VARY_OF_ONE_TYPE,
        PUT=(Tag.ADMINISTRATOR, put_user_limit),
        DELETE=(Tag.ADMINISTRATOR, delete_user_limit),
    ),
]
