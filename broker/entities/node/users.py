"""Users, their permissions and topic permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from broker.entities.arguments.name_patterns import compiled
from broker.entities.scheduling.cache_epoch import CacheEpoch

GIVEN_UP_MAX = 1000
"""Patterns that took too many steps are logged, at most this many, so that the log cannot be flooded."""

_Keeps = Callable[[str, str], bool]


class User(NamedTuple):
    """A user. An empty `password_hash` allows no login with a password."""

    name: str
    password_hash: str
    hashing_algorithm: str
    tags: tuple[str, ...]


class Permission(NamedTuple):
    """A user's permissions in a virtual host: regular expressions that are searched for in names.

    The empty expression matches only the empty name.
    """

    configure: str
    write: str
    read: str


class TopicPermission(NamedTuple):
    """Regular expressions for the routing keys that a user may publish and bind with on a topic exchange."""

    write: str
    read: str


class Users:
    """All users and their permissions. Each change advances `cache_epoch`."""

    def __init__(self, cache_epoch: CacheEpoch) -> None:
        self.by_name: dict[str, User] = {}
        self.permissions: dict[tuple[str, str], Permission] = {}
        self.topic_permissions: dict[tuple[str, str, str], TopicPermission] = {}
        self.cache_epoch = cache_epoch
        self._given_up: set[tuple[str, str, str]] = set()

    def changed(self) -> None:
        """Invalidate cached permissions."""
        self.cache_epoch.advance()
        self._given_up.clear()

    def may_enter(self, user: str, vhost: str) -> bool:
        """Return whether the user has permissions in the virtual host."""
        return (vhost, user) in self.permissions

    def may(self, user: str, vhost: str, action: str, name: str) -> bool:
        """Return whether the user may configure, write or read (`action`) entity `name`. Raises PatternError."""
        permission = self.permissions.get((vhost, user))
        return permission is not None and matches(getattr(permission, action), name)

    def may_use_topic(self, user: str, vhost: str, exchange: str, action: str, key: str) -> bool:
        """Return whether the user may write or read (`action`) with a routing key; True without a topic permission.

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
        """Return whether this is the first time since a change that a pattern of this user took too many steps."""
        if len(self._given_up) >= GIVEN_UP_MAX:
            return False
        before = len(self._given_up)
        self._given_up.add((user, vhost, action))
        return len(self._given_up) > before

    def forget_user(self, user: str) -> None:
        """Remove a user and its permissions."""
        del self.by_name[user]
        self._keep(lambda vhost, name: name != user)

    def forget_vhost(self, vhost: str) -> None:
        """Remove all permissions in a virtual host."""
        self._keep(lambda name, user: name != vhost)

    def _keep(self, keeps: _Keeps) -> None:
        self.permissions = {key: value for key, value in self.permissions.items() if keeps(*key)}
        self.topic_permissions = {key: value for key, value in self.topic_permissions.items() if keeps(*key[:2])}
        self.changed()


def matches(pattern: str, name: str) -> bool:
    """Return whether a permission's pattern is found in a name, as in RabbitMQ; an empty one matches the empty name."""
    return compiled(pattern or "^$").search(name)
