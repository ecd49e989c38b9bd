"""Permissions and topic permissions: lists, and those of a user in a virtual host."""

from __future__ import annotations

from starlette.responses import Response

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.commands.permission_admin import (
    ClearPermissions,
    ClearTopicPermissions,
    SetPermissions,
    SetTopicPermissions,
)
from broker.admin.short_steps import in_steps
from broker.admin.views.access_view import (
    PERMISSIONS_SHOWN,
    TOPIC_PERMISSIONS_SHOWN,
    Permitted,
    all_permissions,
    all_topic_permissions,
)
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import VARY_OF_ONE_TYPE, bad_request, empty, in_json, not_found
from broker.management.routes.administration.user_routes import user_of

ACTIONS = ("configure", "write", "read")
TOPIC_FIELDS = ("exchange", "write", "read")


async def list_permissions(call: ApiCall) -> Response:
    """List all permissions."""
    return await _permissions(call)


async def list_permissions_in_vhost(call: ApiCall) -> Response:
    """List the permissions in a virtual host."""
    return await _permissions(call, vhost=call.vhost.name)


async def list_permissions_of_user(call: ApiCall) -> Response:
    """List the permissions of a user."""
    return await _permissions(call, user=user_of(call).name)


async def _permissions(call: ApiCall, *, vhost: str | None = None, user: str | None = None) -> Response:
    found = [
        given
        async for given in in_steps(sorted(all_permissions(call.api.administration)))
        if vhost in (None, given.vhost) and user in (None, given.user)
    ]
    return await list_response(found, PERMISSIONS_SHOWN, call.list_query(), _user)


async def list_topic_permissions(call: ApiCall) -> Response:
    """List all topic permissions."""
    return await _topic_permissions(call)


async def list_topic_permissions_in_vhost(call: ApiCall) -> Response:
    """List the topic permissions in a virtual host."""
    return await _topic_permissions(call, vhost=call.vhost.name)


async def list_topic_permissions_of_user(call: ApiCall) -> Response:
    """List the topic permissions of a user."""
    return await _topic_permissions(call, user=user_of(call).name)


async def _topic_permissions(call: ApiCall, *, vhost: str | None = None, user: str | None = None) -> Response:
    found = await _find_topic_permissions(call, vhost, user)
    return await list_response(found, TOPIC_PERMISSIONS_SHOWN, call.list_query(), _user)


async def _find_topic_permissions(call: ApiCall, vhost: str | None, user: str | None) -> list[Permitted]:
    return [
        given
        async for given in in_steps(sorted(all_topic_permissions(call.api.administration)))
        if vhost in (None, given.vhost) and user in (None, given.user)
    ]


def _user(given: Permitted) -> str:
    return given.user


# Of one user in one virtual host


async def show_permission(call: ApiCall) -> Response:
    """Show the permissions of a user in a virtual host."""
    vhost, user = call.names["vhost"], call.names["user"]
    permission = call.broker.users.permissions.get((vhost, user))
    if permission is None:
        raise not_found()
    return in_json(call.chosen(PERMISSIONS_SHOWN.row(Permitted(vhost, user, "", permission))))


async def put_permission(call: ApiCall) -> Response:
    """Set the permissions of a user in a virtual host."""
    existed = (call.names["vhost"], call.names["user"]) in call.broker.users.permissions
    await _set(call, SetPermissions, ACTIONS)
    return empty(204 if existed else 201)


async def delete_permission(call: ApiCall) -> Response:
    """Remove the permissions of a user in a virtual host."""
    vhost, user = call.names["vhost"], call.names["user"]
    if (vhost, user) not in call.broker.users.permissions:
        raise not_found()
    await call.change(ClearPermissions(vhost=vhost, user=user))
    return empty(204)


async def show_topic_permissions(call: ApiCall) -> Response:
    """List a user's topic permissions in a virtual host: all, as in RabbitMQ, even if the path names an exchange."""
    found = await _find_topic_permissions(call, call.names["vhost"], call.names["user"])
    if not found:
        raise not_found()
    return await list_response(found, TOPIC_PERMISSIONS_SHOWN, call.list_query(), _user)


async def put_topic_permission(call: ApiCall) -> Response:
    """Set the topic permissions of a user on an exchange."""
    existed = await _find_topic_permissions(call, call.names["vhost"], call.names["user"])
    await _set(call, SetTopicPermissions, TOPIC_FIELDS)
    return empty(204 if existed else 201)


async def delete_topic_permissions(call: ApiCall) -> Response:
    """Remove a user's topic permissions in a virtual host, on one exchange or on all."""
    if not await _find_topic_permissions(call, call.names["vhost"], call.names["user"]):
        raise not_found()
    await call.change(ClearTopicPermissions.parse(call.names))
    return empty(204)


async def _set(call: ApiCall, command: type[AdminCommand], needed: tuple[str, ...]) -> None:
    fields, vhost, user = await call.fields(), call.names["vhost"], call.names["user"]
    if call.api.series >= (4, 0) and not (vhost in call.broker.vhosts and user in call.broker.users.by_name):
        raise bad_request("vhost_or_user_not_found")
    fields.require(*needed)
    given = {key: fields.values[key] for key in needed}
    with where_absent(lambda reason: bad_request("vhost_or_user_not_found")):
        await call.change(command.parse({**given, "vhost": vhost, "user": user}))


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
    resource("/api/topic-permissions", vary=VARY_OF_ONE_TYPE, GET=(Tag.ADMINISTRATOR, list_topic_permissions)),
    resource(
        "/api/vhosts/{vhost}/topic-permissions",
        vary=VARY_OF_ONE_TYPE,
        GET=(Tag.ADMINISTRATOR, list_topic_permissions_in_vhost),
    ),
    resource(
        "/api/users/{user}/topic-permissions",
        vary=VARY_OF_ONE_TYPE,
        GET=(Tag.ADMINISTRATOR, list_topic_permissions_of_user),
    ),
    *(
        resource(
            path,
            vary=VARY_OF_ONE_TYPE,
            GET=(Tag.ADMINISTRATOR, show_topic_permissions),
            PUT=(Tag.ADMINISTRATOR, put_topic_permission),
            DELETE=(Tag.ADMINISTRATOR, delete_topic_permissions),
        )
        for path in ("/api/topic-permissions/{vhost}/{user}", "/api/topic-permissions/{vhost}/{user}/{exchange}")
    ),
]
