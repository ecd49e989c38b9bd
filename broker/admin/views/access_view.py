"""Columns of users, virtual hosts and permissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.kinds.vhost_kind import metadata
from broker.admin.views.columns import Column, Columns
from broker.admin.views.listing import View
from broker.entities.node.user_limits import UserLimits
from broker.entities.node.users import User
from broker.entities.vhosts.vhost import VHost, VHostDescription

# Users


def user_columns(limits: UserLimits) -> dict[str, Column[User]]:
    """The columns that the HTTP API and lists share."""
    return {
        "name": lambda user: user.name,
        "tags": lambda user: list(user.tags),
        "limits": lambda user: limits.users.get(user.name, {}),
    }


# Virtual hosts


def vhost_columns(node: str) -> dict[str, Column[VHost]]:
    """The columns that the HTTP API and lists share, for virtual hosts on a node."""
    return {
        "name": lambda vhost: vhost.name,
        **{field: _described(field) for field in VHostDescription._fields},
        "protected_from_deletion": lambda vhost: vhost.description.protected_from_deletion is True,
        "metadata": lambda vhost: metadata(vhost.description),
        "tracing": lambda vhost: vhost.traced,
        "cluster_state": lambda vhost: {node: "running"},
    }


def _described(field: str) -> Column[VHost]:
    """Return the column of a field of the description; tags are a list."""

    def column(vhost: VHost) -> Any:
        value = getattr(vhost.description, field)
        return list(value) if isinstance(value, tuple) else value

    return column


# Permissions


class Permitted(NamedTuple):
    """A permission of a user in a virtual host; a topic permission is of an `exchange`."""

    vhost: str
    user: str
    exchange: str
    permission: Any


PERMISSION_COLUMNS: Mapping[str, Column[Permitted]] = {
    "user": lambda given: given.user,
    "vhost": lambda given: given.vhost,
    "configure": lambda given: given.permission.configure,
    "write": lambda given: given.permission.write,
    "read": lambda given: given.permission.read,
}
TOPIC_PERMISSION_COLUMNS: Mapping[str, Column[Permitted]] = {
    "user": PERMISSION_COLUMNS["user"],
    "vhost": PERMISSION_COLUMNS["vhost"],
    "exchange": lambda given: given.exchange,
    "write": PERMISSION_COLUMNS["write"],
    "read": PERMISSION_COLUMNS["read"],
}
PERMISSIONS_SHOWN, TOPIC_PERMISSIONS_SHOWN = Columns(PERMISSION_COLUMNS), Columns(TOPIC_PERMISSION_COLUMNS)


def all_permissions(administration: Administration) -> Iterator[Permitted]:
    """The permissions of all users."""
    items = list(administration.users.permissions.items())
    return (Permitted(vhost, user, "", permission) for (vhost, user), permission in items)


def all_topic_permissions(administration: Administration) -> Iterator[Permitted]:
    """The topic permissions of all users."""
    items = list(administration.users.topic_permissions.items())
    return (Permitted(vhost, user, exchange, permission) for (vhost, user, exchange), permission in items)


# Lists of the command line


def _listed_users(administration: Administration) -> Columns[User]:
    shared = user_columns(administration.broker.user_limits)
    return Columns({**shared, "user": shared["name"]})


def _listed_vhosts(administration: Administration) -> Columns[VHost]:
    limits = administration.broker.user_limits.vhosts
    return Columns({**vhost_columns(administration.node.name), "limits": lambda vhost: limits.get(vhost.name, {})})


def _users(administration: Administration, owner: None) -> list[User]:
    return list(administration.users.by_name.values())


def _permissions(administration: Administration, vhost: str | None) -> Iterator[Permitted]:
    chosen = {each.name for each in administration.vhosts(vhost)}
    return (given for given in all_permissions(administration) if given.vhost in chosen)


def _topic_permissions(administration: Administration, vhost: str | None) -> Iterator[Permitted]:
    chosen = {each.name for each in administration.vhosts(vhost)}
    return (given for given in all_topic_permissions(administration) if given.vhost in chosen)


def _permissions_of_user(administration: Administration, user: str) -> Iterator[Permitted]:
    name = administration.user(user).name
    return (given for given in all_permissions(administration) if given.user == name)


def _topic_permissions_of_user(administration: Administration, user: str) -> Iterator[Permitted]:
    name = administration.user(user).name
    return (given for given in all_topic_permissions(administration) if given.user == name)


def _without_user(columns: Mapping[str, Column[Permitted]]) -> Columns[Permitted]:
    return Columns({name: column for name, column in columns.items() if name != "user"})


USERS = View(_users, _listed_users)
VHOSTS = View(Administration.vhosts, _listed_vhosts)
PERMISSIONS = View(_permissions, lambda administration: PERMISSIONS_SHOWN)
TOPIC_PERMISSIONS = View(_topic_permissions, lambda administration: TOPIC_PERMISSIONS_SHOWN)
USER_PERMISSIONS = View(_permissions_of_user, lambda administration: _without_user(PERMISSION_COLUMNS))
USER_TOPIC_PERMISSIONS = View(
    _topic_permissions_of_user, lambda administration: _without_user(TOPIC_PERMISSION_COLUMNS)
)
