"""Permissions, and topic permissions: by virtual host, by user, and one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from broker.admin.short_steps import in_steps
from broker.management.access import Tag
from broker.management.answers import bad_request, empty, in_json, not_found
from broker.management.call import Call, where_absent
from broker.management.columns import columns_of
from broker.management.list_query import list_answer
from broker.management.resources import Resource, resource
from broker.management.routes.administration.user_routes import user_of

Row = Mapping[str, Any]
ACTIONS = ("configure", "write", "read")
TOPIC_FIELDS = ("exchange", "write", "read")
COLUMNS = columns_of("user", "vhost", *ACTIONS)
TOPIC_COLUMNS = columns_of("user", "vhost", *TOPIC_FIELDS)


async def list_permissions(call: Call) -> Response:
    """All permissions."""
    return await _permissions(call)


async def list_permissions_in_vhost(call: Call) -> Response:
    """What users may do in a virtual host."""
    return await _permissions(call, vhost=call.vhost.name)


async def list_permissions_of_user(call: Call) -> Response:
    """What a user may do in each virtual host."""
    return await _permissions(call, user=user_of(call).name)


async def _permissions(call: Call, *, vhost: str | None = None, user: str | None = None) -> Response:
    rows = [
        {"user": of_user, "vhost": in_vhost, **permission._asdict()}
        async for (in_vhost, of_user), permission in in_steps(sorted(call.broker.users.permissions.items()))
        if vhost in (None, in_vhost) and user in (None, of_user)
    ]
    return await list_answer(rows, COLUMNS, call.list_query(), _user)


async def list_topic_permissions(call: Call) -> Response:
    """All topic permissions."""
    return await _topic_permissions(call)


async def list_topic_permissions_in_vhost(call: Call) -> Response:
    """Topic permissions in a virtual host."""
    return await _topic_permissions(call, vhost=call.vhost.name)


async def list_topic_permissions_of_user(call: Call) -> Response:
    """Topic permissions of a user."""
    return await _topic_permissions(call, user=user_of(call).name)


async def _topic_permissions(call: Call, *, vhost: str | None = None, user: str | None = None) -> Response:
    rows = await _topic_rows(call, vhost, user)
    return await list_answer(rows, TOPIC_COLUMNS, call.list_query(), _user)


async def _topic_rows(call: Call, vhost: str | None, user: str | None) -> list[Row]:
    return [
        {"user": of_user, "vhost": in_vhost, "exchange": exchange, **permission._asdict()}
        async for (in_vhost, of_user, exchange), permission in in_steps(
            sorted(call.broker.users.topic_permissions.items())
        )
        if vhost in (None, in_vhost) and user in (None, of_user)
    ]


def _user(row: Row) -> str:
    return str(row["user"])


# Those of one user in one virtual host


async def show_permission(call: Call) -> Response:
    """What a user may do in a virtual host."""
    vhost, user = call.names["vhost"], call.names["user"]
    permission = call.broker.users.permissions.get((vhost, user))
    if permission is None:
        raise not_found()
    return in_json(call.chosen({"user": user, "vhost": vhost, **permission._asdict()}))


async def put_permission(call: Call) -> Response:
    """Set what a user may do in a virtual host."""
    existed = (call.names["vhost"], call.names["user"]) in call.broker.users.permissions
    await _set(call, "set_permissions", ACTIONS)
    return empty(204 if existed else 201)


async def delete_permission(call: Call) -> Response:
    """Keep a user out of a virtual host."""
    vhost, user = call.names["vhost"], call.names["user"]
    if (vhost, user) not in call.broker.users.permissions:
        raise not_found()
    await call.change("clear_permissions", vhost=vhost, user=user)
    return empty(204)


async def show_topic_permissions(call: Call) -> Response:
    """A user's topic permissions in a virtual host: as in RabbitMQ all, even where the path names an exchange."""
    rows = await _topic_rows(call, call.names["vhost"], call.names["user"])
    if not rows:
        raise not_found()
    return await list_answer(rows, TOPIC_COLUMNS, call.list_query(), _user)


async def put_topic_permission(call: Call) -> Response:
    """Set which routing keys a user may use on an exchange."""
    existed = await _topic_rows(call, call.names["vhost"], call.names["user"])
    await _set(call, "set_topic_permissions", TOPIC_FIELDS)
    return empty(204 if existed else 201)


async def delete_topic_permissions(call: Call) -> Response:
    """Lift a user's topic permissions in a virtual host: on the exchange that the path names, or on all."""
    if not await _topic_rows(call, call.names["vhost"], call.names["user"]):
        raise not_found()
    await call.change("clear_topic_permissions", **call.names)
    return empty(204)


async def _set(call: Call, command: str, needed: tuple[str, ...]) -> None:
    fields = await call.fields()
    fields.require(*needed)
    given = {key: fields.values[key] for key in needed}
    with where_absent(lambda reason: bad_request("vhost_or_user_not_found")):
        await call.change(command, vhost=call.names["vhost"], user=call.names["user"], **given)


RESOURCES: list[Resource] = [
    resource("/api/permissions", GET=(Tag.ADMINISTRATOR, list_permissions)),
    resource("/api/vhosts/{vhost}/permissions", GET=(Tag.ADMINISTRATOR, list_permissions_in_vhost)),
    resource("/api/users/{user}/permissions", GET=(Tag.ADMINISTRATOR, list_permissions_of_user)),
    resource(
        "/api/permissions/{vhost}/{user}",
        GET=(Tag.ADMINISTRATOR, show_permission),
        PUT=(Tag.ADMINISTRATOR, put_permission),
        DELETE=(Tag.ADMINISTRATOR, delete_permission),
    ),
    resource("/api/topic-permissions", GET=(Tag.ADMINISTRATOR, list_topic_permissions)),
    resource("/api/vhosts/{vhost}/topic-permissions", GET=(Tag.ADMINISTRATOR, list_topic_permissions_in_vhost)),
    resource("/api/users/{user}/topic-permissions", GET=(Tag.ADMINISTRATOR, list_topic_permissions_of_user)),
    *(
        resource(
            path,
            GET=(Tag.ADMINISTRATOR, show_topic_permissions),
            PUT=(Tag.ADMINISTRATOR, put_topic_permission),
            DELETE=(Tag.ADMINISTRATOR, delete_topic_permissions),
        )
        for path in ("/api/topic-permissions/{vhost}/{user}", "/api/topic-permissions/{vhost}/{user}/{exchange}")
    ),
]
