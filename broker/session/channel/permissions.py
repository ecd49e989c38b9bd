"""What one user may do in one virtual host, remembered for as long as it holds."""

from __future__ import annotations

from itertools import islice

from broker.entities.exchanges.exchange import Exchange
from broker.entities.queues.queue import Queue
from broker.entities.vhosts.users import Users
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode
from broker.wire.properties import PropertySummary

REMEMBERED_MAX = 4096
TARGETS_LEAST = 128
"""No fewer are looked through for those that lead nowhere any more."""
TARGETS_MAX = 131_072
"""Half a kibibyte to one and a half each, for all connections of a user to a virtual host together."""
HEADER_BYTES_MAX = 1024
"""Longer headers are not remembered with a target."""


class Target:
    """Where publishes with the same arguments go: the parsed arguments, and the routes while they last.

    `summary` is what the last publish's `header` said, None when that was too long to be kept.
    `queues` is None when each message has to be routed by itself or, unless it is `routed`, looked up by name.
    The rest holds as long as neither the exchange's version nor the permissions' cache_epoch has changed.
    """

    __slots__ = (
        "cache_epoch",
        "exchange",
        "header",
        "key",
        "mandatory",
        "name",
        "queues",
        "route",
        "routed",
        "summary",
        "version",
    )

    def __init__(self, name: str, key: str, *, mandatory: bool, route: bytes) -> None:
        self.name = name
        self.key = key
        self.mandatory = mandatory
        self.route = route
        self.exchange: Exchange | None = None
        self.version = -1
        self.cache_epoch = -1
        self.routed = bool(name)
        self.queues: tuple[Queue, ...] | None = None
        self.header = b""
        self.summary: PropertySummary | None = None

    def is_stale(self, cache_epoch: int) -> bool:
        """It has to be resolved anew: what it names may be gone."""
        return self.exchange is None or self.exchange.version != self.version or self.cache_epoch != cache_epoch


class Access:
    """Permission checks of a user in a virtual host, with RabbitMQ's refusals.

    Checks happen with every method; what was allowed is remembered until anything about users changes.
    """

    def __init__(self, users: Users, user: str, vhost: str) -> None:
        self.users = users
        self.user = user
        self.vhost = vhost
        self.targets: dict[bytes, Target] = {}
        self._targets_due = TARGETS_LEAST
        self._allowed: set[tuple[str, str]] = set()
        self.cache_epoch = users.cache_epoch
        self._known = self.cache_epoch.number

    def remember(self, arguments: bytes, target: Target) -> None:
        """Keep a target for further publishes with these arguments.

        A stale one may be all that still holds a deleted queue or exchange. So whenever their number has doubled, the
        stale ones are let go: what is gone takes no more memory than what is there, and each publish pays a little.
        """
        if len(self.targets) >= self._targets_due:
            self._forget_targets()
        self.targets[arguments] = target

    def _forget_targets(self) -> None:
        now = self.cache_epoch.number
        kept = {arguments: target for arguments, target in self.targets.items() if not target.is_stale(now)}
        if len(kept) >= TARGETS_MAX:
            kept = dict(islice(kept.items(), TARGETS_MAX // 2, None))
        self.targets.clear()  # it is this dictionary that the reader holds
        self.targets.update(kept)
        self._targets_due = min(TARGETS_MAX, max(TARGETS_LEAST, 2 * len(kept)))

    @property
    def impersonator(self) -> bool:
        """The user may publish in the name of others."""
        user = self.users.by_name.get(self.user)
        return user is not None and "impersonator" in user.tags

    def configure_queue(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may create and delete the queue."""
        self._check("configure", "queue", name)

    def write_queue(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may bind the queue."""
        self._check("write", "queue", name)

    def read_queue(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may consume from the queue."""
        self._check("read", "queue", name)

    def configure_exchange(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may create and delete the exchange."""
        self._check("configure", "exchange", name)

    def write_exchange(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may publish to the exchange."""
        self._check("write", "exchange", name or "amq.default")

    def read_exchange(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may bind to the exchange."""
        self._check("read", "exchange", name or "amq.default")

    def topic(self, exchange: Exchange, action: str, key: str) -> None:
        """Raises ChannelException 403 unless the user may write or read (`action`) with this key."""
        if exchange.type != "topic":
            return
        if not self.users.may_use_topic(self.user, self.vhost, exchange.name, action, key):
            what = f"topic '{key}' in exchange '{exchange.name}' in vhost '{self.vhost}'"
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"access to {what} refused for user '{self.user}'")

    def _check(self, action: str, kind: str, name: str) -> None:
        if self._known != self.cache_epoch.number:
            self._allowed.clear()
            self._known = self.cache_epoch.number
        if (action, name) in self._allowed:
            return
        if not self.users.may(self.user, self.vhost, action, name):
            what = f"{kind} '{name}' in vhost '{self.vhost}'"
            raise ChannelException(ReplyCode.ACCESS_REFUSED, f"access to {what} refused for user '{self.user}'")
        if len(self._allowed) >= REMEMBERED_MAX:
            self._allowed.clear()
        self._allowed.add((action, name))
