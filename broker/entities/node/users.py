"""Users, their permissions and topic permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from broker.entities.arguments.name_patterns import compiled
from broker.entities.scheduling.cache_epoch import CacheEpoch

GIVEN_UP_MAX = 1000
"""So many patterns that were given up are logged; more are an attack on the log."""

_Wanted = Callable[[str, str], bool]


class User(NamedTuple):
    """A user. An empty `password_hash` means: no login with a password."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...]


class Permission(NamedTuple):
    """What a user may do in a virtual host: regular expressions that names are searched for.

    The empty expression allows nothing but the empty name.
    """

    configure: str
    write: str
    read: str


class TopicPermission(NamedTuple):
    """Which routing keys a user may publish and bind with on a topic exchange."""

    write: str
    read: str


class Users:
    """All users with their permissions. `cache_epoch` advances whenever any of it changes."""

    def __init__(self, cache_epoch: CacheEpoch) -> None:
        self.by_name: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self.cache_epoch = cache_epoch
        self._given_up: set[tuple[str, str, str]] = set()

    def changed(self) -> None:
        """Cached decisions no longer hold."""
        self.cache_epoch.advance()
        self._given_up.clear()

    def may_enter(self, user: str, vhost: str) -> bool:
        """The user has permissions of some kind in the virtual host."""
        return (vhost, user) in self.permissions

    def may(self, user: str, vhost: str, action: str, name: str) -> bool:
        """The user may configure, write or read (`action`) the exchange or queue `name`. Raises PatternError."""
        permission = self.permissions.get((vhost, user))
        return permission is not None and matches(getattr(permission, action), name)

    def may_use_topic(self, user: str, vhost: str, exchange: str, action: str, key: str) -> bool:
        """The user may write or read (`action`) with a routing key; so may everybody without a topic permission.

        Raises PatternError.
        """
        permission = self.topic_permissions.get((vhost, user, exchange))
        if permission is None:
            return True
        pattern = (
            getattr(permission, action).replace("{username}", re.escape(user)).replace("{vhost}", re.escape(vhost))
        )
        return matches(pattern, key)

    def first_given_up(self, user: str, vhost: str, action: str) -> bool:
        """Whether a pattern of this user is given up for the first time since something changed; for the log."""
        if len(self._given_up) >= GIVEN_UP_MAX:
            return False
        before = len(self._given_up)
        self._given_up.add((user, vhost, action))
        return len(self._given_up) > before

    def forget_user(self, user: str) -> None:
        """Remove a user with everything permitted to it."""
        del self.by_name[user]
        self._keep(lambda vhost, name: name != user)

    def forget_vhost(self, vhost: str) -> None:
        """Remove what was permitted in a virtual host."""
        self._keep(lambda name, user: name != vhost)

    def _keep(self, wanted: _Wanted) -> None:
        self.permissions = {key: value for key, value in self.permissions.items() if wanted(*key)}
        self.topic_permissions = {key: value for key, value in self.topic_permissions.items() if wanted(*key[:2])}
        self.changed()


def matches(pattern: str, name: str) -> bool:
    """RabbitMQ's reading of a permission: searched for anywhere, and the empty pattern allows only the empty name."""
    return compiled(pattern or "^$").search(name)
