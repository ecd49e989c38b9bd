"""Access to the API: the broker's users, by the rules and in the words of RabbitMQ's management plugin.

Wrong passwords are throttled by the same login throttle as over AMQP. A throttled client gets 429: RabbitMQ knows
no such thing, and a program with the right password must not take it for the wrong one.
"""

from __future__ import annotations

import logging
import math
from enum import Enum

from broker.entities.node.users import User, Users
from broker.entities.scheduling.cache_epoch import CacheEpoch
from broker.entities.statistics.totals import HTTP
from broker.management.answers import Problem
from broker.session.login import authenticate, sasl
from broker.session.peer import Peer
from broker.session.registry import Registry

log = logging.getLogger("leveret.http")

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
CHALLENGE = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
"""Programs depend on the realm."""

NOT_IN_VHOST = "User not authorised to access virtual host"


class Tag(Enum):
    """What a route asks of its user: one of these tags, or else the refusal."""

    ANY = ((ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT), "Not management user")
    POLICYMAKER = ((ADMINISTRATOR, POLICYMAKER), "User not authorised to access object")
    MONITORING = ((ADMINISTRATOR, MONITORING), "Not monitor user")
    ADMINISTRATOR = ((ADMINISTRATOR,), "Not administrator user")

    @property
    def refusal_in_vhost(self) -> str:
        """What a user hears who has the tag, and no permission in the virtual host."""
        return NOT_IN_VHOST if self is not Tag.POLICYMAKER else str(self.value[1])


class Account:
    """A user who has logged in, and what the tags let it see."""

    def __init__(self, user: User, users: Users) -> None:
        self.name = user.name
        self.tags = frozenset(user.tags)
        self._users = users

    @property
    def administrates(self) -> bool:
        """The user may do anything that needs no permission in a virtual host."""
        return ADMINISTRATOR in self.tags

    @property
    def monitors(self) -> bool:
        """The user sees everybody's connections, and the node."""
        return not self.tags.isdisjoint((ADMINISTRATOR, MONITORING))

    @property
    def reads_parameters(self) -> bool:
        """The user may read parameters as they were set, with the passwords in them."""
        return not self.tags.isdisjoint((ADMINISTRATOR, POLICYMAKER))

    def sees(self, vhost: str) -> bool:
        """The user sees what is in a virtual host."""
        return self.administrates or self.enters(vhost)

    def lists(self, vhost: str) -> bool:
        """The user knows that a virtual host exists; monitors know all of them, and not what is in them."""
        return self.monitors or self.enters(vhost)

    def enters(self, vhost: str) -> bool:
        """The user has permissions of some kind in a virtual host; an administrator needs them to change things."""
        return self._users.may_enter(self.name, vhost)

    def require(self, tag: Tag) -> None:
        """Raise Problem 401 unless the user has one of the tags that a route asks for."""
        for needed in (Tag.ANY, tag):
            tags, reason = needed.value
            if self.tags.isdisjoint(tags):
                raise denied(self.name, reason)


ANYBODY = Account(User("", "", "", ()), Users(CacheEpoch()))
"""The account of a request to a route that needs no credentials: it sees nothing."""


def denied(user: str, reason: str) -> Problem:
    """A user may log in, and may not do this."""
    log.warning("HTTP request: access denied: user '%s' - %s", user, reason, extra={"user": user})
    return Problem(401, "not_authorised", reason)


def account(registry: Registry, peer: Peer, authorization: str) -> Account:
    """The user whose credentials a request has in its header. Raises Problem 400, 401 or 429."""
    scheme, _, credentials = authorization.partition(" ")
    if not authorization or scheme.lower() == "bearer":
        raise Problem(401, headers=CHALLENGE)
    try:
        if scheme.lower() != "basic":
            raise sasl.Malformed("an authorization of another scheme than Basic")
        login = sasl.basic(credentials.strip().encode("latin-1"))
    except sasl.Malformed as error:
        log.warning("HTTP request of %s: %s", peer, error, extra={"connection": str(peer)})
        raise Problem(400) from None
    refused = authenticate.check_login(registry, peer, login, HTTP)
    if refused is not None:
        words = "HTTP request of %s: login refused: user '%s' - %s"
        fields = {"connection": str(peer), "user": login.user}
        log.warning(words, peer, login.user, refused.reason, extra=fields)
        raise _refused(refused)
    return Account(registry.broker.users.by_name[login.user], registry.broker.users)


def _refused(refused: authenticate.LoginRefusal) -> Problem:
    if refused.throttled:
        after = {"retry-after": str(math.ceil(refused.throttled))}
        return Problem(429, "too_many_requests", "Too many wrong passwords", after)
    if refused.reason == authenticate.LOOPBACK_ONLY:
        return Problem(401, "not_authorised", "User can only log in via localhost", CHALLENGE)
    return Problem(401, "not_authorized", "Login failed", CHALLENGE, delay=refused.delay)
