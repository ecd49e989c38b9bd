"""Permission checks of one user in one virtual host, with a cache."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from broker.entities.arguments.name_patterns import STEPS_MAX, PatternError
from broker.entities.arguments.personality import DEFAULT, Personality
from broker.entities.exchanges.exchange import Exchange
from broker.entities.node.users import Users
from broker.wire.amqp_errors import ChannelException
from broker.wire.constants import ReplyCode

log = logging.getLogger("leveret.permissions")

REMEMBERED_MAX = 4096


class Access:
    """Permission checks of a user in a virtual host, with RabbitMQ's refusals.

    Every method is checked; a grant is cached until the cache epoch changes.
    """

    def __init__(self, users: Users, user: str, vhost: str, personality: Personality = DEFAULT) -> None:
        self._personality = personality
        self.users = users
        self.user = user
        self.vhost = vhost
        self._allowed: set[tuple[str, str]] = set()
        self.cache_epoch = users.cache_epoch
        self._known = self.cache_epoch.number

    @property
    def impersonator(self) -> bool:
        """True if the user may publish with another `user-id`."""
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

    def know_queue(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may declare the queue passively."""
        self._know("queue", name)

    def know_exchange(self, name: str) -> None:
        """Raises ChannelException 403 unless the user may declare the exchange passively."""
        self._know("exchange", name)

    def _know(self, kind: str, name: str) -> None:
        if not self._personality.passive_access:
            return
        with suppress(PatternError):
            if any(self.users.may(self.user, self.vhost, action, name) for action in ("write", "read")):
                return
        self._check("configure", kind, name)

    def topic(self, exchange: Exchange, action: str, key: str) -> None:
        """Raises ChannelException 403 unless the user may write or read (`action`) with this key."""
        if exchange.type != "topic" or not self.users.topic_permissions:
            return
        allowed = partial(self.users.may_use_topic, self.user, self.vhost, exchange.name, action, key)
        self._require(allowed, action, f"topic '{key}' in exchange '{exchange.name}' in vhost '{self.vhost}'")

    def _require(self, allowed: Callable[[], bool], action: str, what: str) -> None:
        why, named = "", f"{action} " if self._personality.named_actions else ""
        try:
            if allowed():
                return
        except PatternError as error:
            self._log_once(action, error)
            why = ": the permission's regular expression was given up"
        raise ChannelException(ReplyCode.ACCESS_REFUSED, f"{named}access to {what} refused for user '{self.user}'{why}")

    def _log_once(self, action: str, error: PatternError) -> None:
        """Log once per user, virtual host and permission: a client may try again for ever."""
        if self.users.first_given_up(self.user, self.vhost, action):
            log.warning(
                "user '%s', vhost '%s': %s is refused: %s; the limit is %d steps. Begin the pattern with ^ and repeat "
                "nothing that repeats. This is logged once",
                self.user,
                self.vhost,
                action,
                error,
                STEPS_MAX,
                extra={"user": self.user, "vhost": self.vhost},
            )

    def _check(self, action: str, kind: str, name: str) -> None:
        if self._known != self.cache_epoch.number:
            self._allowed.clear()
            self._known = self.cache_epoch.number
        if (action, name) in self._allowed:
            return
        allowed = partial(self.users.may, self.user, self.vhost, action, name)
        self._require(allowed, action, f"{kind} '{name}' in vhost '{self.vhost}'")
        if len(self._allowed) >= REMEMBERED_MAX:
            self._allowed.clear()
        self._allowed.add((action, name))


class Trusted(Access):
    """Permissions of connections that the broker itself makes: they may do anything in their virtual host."""

    @property
    def impersonator(self) -> bool:
        """True: it may publish with any `user-id`."""
        return True

    def _require(self, allowed: Callable[[], bool], action: str, what: str) -> None:
        pass
