"""What is listed of users, virtual hosts and permissions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.listing import Column, Listing, vhosts
from broker.entities.node.users import User
from broker.entities.vhosts.vhost import VHost


class Limited(NamedTuple):
    """A user or a virtual host, with its limits, on a node."""

    node: str
    it: Any
    limits: dict[str, int]


class Permitted(NamedTuple):
    """A permission, or a topic permission: of whom, where."""

    vhost: str
    user: str
    exchange: str
    permission: Any


USER_COLUMNS: dict[str, Column] = {
    "name": lambda user: user.it.name,
    "tags": lambda user: list(user.it.tags),
    "limits": lambda user: user.limits,
    "user": lambda user: user.it.name,
}

VHOST_COLUMNS: dict[str, Column] = {
    "name": lambda vhost: vhost.it.name,
    "description": lambda vhost: vhost.it.description.description,
    "tags": lambda vhost: list(vhost.it.description.tags),
    "default_queue_type": lambda vhost: vhost.it.description.default_queue_type,
    "limits": lambda vhost: vhost.limits,
    "tracing": lambda vhost: vhost.it.traced,
    "cluster_state": lambda vhost: {vhost.node: "running"},
}

PERMISSION_COLUMNS: dict[str, Column] = {
    "vhost": lambda given: given.vhost,
    "user": lambda given: given.user,
    "configure": lambda given: given.permission.configure,
    "write": lambda given: given.permission.write,
    "read": lambda given: given.permission.read,
}

TOPIC_PERMISSION_COLUMNS: dict[str, Column] = {
    "vhost": lambda given: given.vhost,
    "user": lambda given: given.user,
    "exchange": lambda given: given.exchange,
    "write": lambda given: given.permission.write,
    "read": lambda given: given.permission.read,
}


def _users(administration: Administration, arguments: Arguments) -> Iterator[Limited]:
    limits, node = administration.broker.user_limits.users, administration.node.name
    users: list[User] = list(administration.users.by_name.values())
    return (Limited(node, user, limits.get(user.name, {})) for user in users)


def _vhosts(administration: Administration, arguments: Arguments) -> Iterator[Limited]:
    limits, node = administration.broker.user_limits.vhosts, administration.node.name
    found: list[VHost] = vhosts(administration, arguments)
    return (Limited(node, vhost, limits.get(vhost.name, {})) for vhost in found)


def _permissions(administration: Administration, arguments: Arguments) -> Iterator[Permitted]:
    chosen = {vhost.name for vhost in vhosts(administration, arguments)}
    return (given for given in _all_permissions(administration) if given.vhost in chosen)


def _topic_permissions(administration: Administration, arguments: Arguments) -> Iterator[Permitted]:
    chosen = {vhost.name for vhost in vhosts(administration, arguments)}
    return (given for given in _all_topic_permissions(administration) if given.vhost in chosen)


def _permissions_of_user(administration: Administration, arguments: Arguments) -> Iterator[Permitted]:
    name = administration.user(arguments.text("name")).name
    return (given for given in _all_permissions(administration) if given.user == name)


def _topic_permissions_of_user(administration: Administration, arguments: Arguments) -> Iterator[Permitted]:
    name = administration.user(arguments.text("name")).name
    return (given for given in _all_topic_permissions(administration) if given.user == name)


def _all_permissions(administration: Administration) -> Iterator[Permitted]:
    items = list(administration.users.permissions.items())
    return (Permitted(vhost, user, "", permission) for (vhost, user), permission in items)


def _all_topic_permissions(administration: Administration) -> Iterator[Permitted]:
    items = list(administration.users.topic_permissions.items())
    return (Permitted(vhost, user, exchange, permission) for (vhost, user, exchange), permission in items)


def _without_user(columns: dict[str, Column]) -> dict[str, Column]:
    return {name: column for name, column in columns.items() if name != "user"}


USERS = Listing(_users, USER_COLUMNS)
VHOSTS = Listing(_vhosts, VHOST_COLUMNS)
PERMISSIONS = Listing(_permissions, PERMISSION_COLUMNS)
TOPIC_PERMISSIONS = Listing(_topic_permissions, TOPIC_PERMISSION_COLUMNS)
USER_PERMISSIONS = Listing(_permissions_of_user, _without_user(PERMISSION_COLUMNS))
USER_TOPIC_PERMISSIONS = Listing(_topic_permissions_of_user, _without_user(TOPIC_PERMISSION_COLUMNS))
