"""Users: list, show, put, delete."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from broker.admin.commands.user_admin import DeleteUser, DeleteUsers, PutUser
from broker.admin.short_steps import in_steps
from broker.admin.views.access_view import user_columns
from broker.admin.views.columns import Columns
from broker.entities.node.users import User
from broker.management.access import Tag
from broker.management.api_call import ApiCall, where_absent
from broker.management.list_query import list_response
from broker.management.resources import Resource, resource
from broker.management.responses import bad_request, empty, in_json, not_found

GIVEN = ("tags", "password", "password_hash", "hashing_algorithm", "limits", "permissions")
"""Fields of a user in a request."""


async def list_users(call: ApiCall) -> Response:
    """List users."""
    return await _listed(call, call.broker.users.by_name.values())


async def list_users_without_permissions(call: ApiCall) -> Response:
    """List users without permissions in any virtual host."""
    users = call.broker.users
    permitted = {user async for _, user in in_steps(list(users.permissions))}
    return await _listed(call, [user for name, user in users.by_name.items() if name not in permitted])


async def _listed(call: ApiCall, users: Iterable[User]) -> Response:
    """List them, by pages from 4.0 on."""
    query = call.list_query(paged=call.api.series >= (4, 0))
    return await list_response(sorted(users), _columns(call), query, _name)


def _name(user: User) -> str:
    return user.name


def _columns(call: ApiCall) -> Columns[User]:
    return Columns(
        {
            **user_columns(call.broker.user_limits),
            "password_hash": lambda user: user.password_hash,
            "hashing_algorithm": lambda user: user.hashing_algorithm,
        }
    )


def user_of(call: ApiCall) -> User:
    """The user that the path names. Raises Problem 404."""
    user = call.broker.users.by_name.get(call.names["user"])
    if user is None:
        raise not_found()
    return user


async def show_user(call: ApiCall) -> Response:
    """Show a user."""
    return in_json(call.chosen(_columns(call).row(user_of(call))))


async def put_user(call: ApiCall) -> Response:
    """Create or replace a user. Without a password it cannot log in with one."""
    fields, name = await call.fields(), call.names["user"]
    given = {key: fields.values[key] for key in GIVEN if key in fields}
    if "tags" not in fields and "administrator" in fields:  # how RabbitMQ's first versions said it
        given["tags"] = "administrator" if fields.flag("administrator") else ""
    existed = name in call.broker.users.by_name
    with where_absent(bad_request):  # a virtual host of its permissions
        await call.change(PutUser.parse({"name": name, **given}))
    return empty(204 if existed else 201)


async def delete_user(call: ApiCall) -> Response:
    """Delete a user, and close its connections."""
    await call.change(DeleteUser(name=call.names["user"], by_api=True))
    return empty(204)


async def delete_users(call: ApiCall) -> Response:
    """Delete several users; none if one of them does not exist."""
    fields = await call.fields()
    fields.require("users")
    with where_absent(bad_request):
        await call.change(DeleteUsers.parse({"names": fields.values["users"]}))
    return empty(204)


RESOURCES: list[Resource] = [
    resource("/api/users", GET=(Tag.ADMINISTRATOR, list_users)),
    resource("/api/users/bulk-delete", POST=(Tag.ADMINISTRATOR, delete_users)),
    resource("/api/users/without-permissions", GET=(Tag.ADMINISTRATOR, list_users_without_permissions)),
    resource(
        "/api/users/{user}",
        GET=(Tag.ADMINISTRATOR, show_user),
        PUT=(Tag.ADMINISTRATOR, put_user),
        DELETE=(Tag.ADMINISTRATOR, delete_user),
    ),
]
