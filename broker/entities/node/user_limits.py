"""Limits of users and virtual hosts, set by an operator: max-connections, max-channels, max-queues."""

from __future__ import annotations

from collections.abc import Callable

MAX_CONNECTIONS = "max-connections"
MAX_CHANNELS = "max-channels"
MAX_QUEUES = "max-queues"

OF_USERS = frozenset({MAX_CONNECTIONS, MAX_CHANNELS})
OF_VHOSTS = frozenset({MAX_CONNECTIONS, MAX_QUEUES})


class UserLimits:
    """The limits by user and by virtual host. A negative value means no limit, as in RabbitMQ.

    `count` functions are called only if there is a limit.
    """

    def __init__(self) -> None:
        self.users: dict[str, dict[str, int]] = {}
        self.vhosts: dict[str, dict[str, int]] = {}

    def user_reached(self, user: str, limit: str, count: Callable[[], int]) -> int | None:
        """Return the limit if a user's `count` has reached it, else None."""
        return _reached(self.users.get(user), limit, count)

    def vhost_reached(self, vhost: str, limit: str, count: Callable[[], int]) -> int | None:
        """Return the limit if a virtual host's `count` has reached it, else None."""
        return _reached(self.vhosts.get(vhost), limit, count)


def _reached(limits: dict[str, int] | None, name: str, count: Callable[[], int]) -> int | None:
    limit = None if limits is None else limits.get(name)
    return limit if limit is not None and 0 <= limit <= count() else None
