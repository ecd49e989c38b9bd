"""Access to the API: the broker's users, by the rules and in the words of RabbitMQ's management plugin.

Wrong passwords are throttled by the same login throttle as over AMQP. A throttled client gets 429, which RabbitMQ does
not send: with 401 a program would take its right password for a wrong one.
"""

from __future__ import annotations

import logging
import math
from enum import Enum

from broker.entities.node.users import User, Users
from broker.entities.scheduling.cache_epoch import CacheEpoch
from broker.entities.statistics.totals import HTTP
from broker.management.responses import Problem
from broker.session.login import authenticate, sasl
from broker.session.peer import Peer
from broker.session.registry import Registry

log = logging.getLogger("leveret.http")

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
CHALLENGE = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
"""Programs depend on the realm."""

LOGIN_FAILED = "Login failed"
"""The refusal of RabbitMQ 3, which asks for credentials again."""
NOT_IN_VHOST = "User not authorised to access virtual host"
NOT_THE_OBJECT = "User not authorised to access object"


class Tag(Enum):
    """The tags of which a route requires one, and the text of the refusal."""

    ANY = ((ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT), "Not management user")
    POLICYMAKER = ((ADMINISTRATOR, POLICYMAKER), NOT_THE_OBJECT)
    MONITORING = ((ADMINISTRATOR, MONITORING), "Not monitor user")
    ADMINISTRATOR = ((ADMINISTRATOR,), "Not administrator user")

    @property
    def refusal_in_vhost(self) -> str:
        """The refusal of a user with the tag and without a permission in the virtual host."""
        return NOT_IN_VHOST if self is not Tag.POLICYMAKER else str(self.value[1])


class Account:
    """A user that has logged in, with the rights that its tags give."""

    def __init__(self, user: User, users: Users) -> None:
        self.name = user.name
        self.tags = frozenset(user.tags)
        self._users = users

    @property
    def administrates(self) -> bool:
        """True if the user may do everything that requires no permission in a virtual host."""
        return ADMINISTRATOR in self.tags

    @property
    def monitors(self) -> bool:
        """True if the user may see the node and the connections of all users."""
        return not self.tags.isdisjoint((ADMINISTRATOR, MONITORING))

    @property
    def reads_parameters(self) -> bool:
        """True if the user may read parameters with the passwords in them."""
        return not self.tags.isdisjoint((ADMINISTRATOR, POLICYMAKER))

    def sees(self, vhost: str) -> bool:
        """Return True if the user may see what is in a virtual host."""
        return self.administrates or self.enters(vhost)

    def lists(self, vhost: str) -> bool:
        """Return True if the user may see that a virtual host exists; a monitor may see this of all of them."""
        return self.monitors or self.enters(vhost)

    def enters(self, vhost: str) -> bool:
        """Return True if the user has permissions in a virtual host; an administrator needs them for changes."""
        return self._users.may_enter(self.name, vhost)

    def require(self, tag: Tag) -> None:
        """Raise Problem 401 unless the user has one of the tags that a route requires."""
        for needed in (Tag.ANY, tag):
            tags, reason = needed.value
            if self.tags.isdisjoint(tags):
                raise denied(self.name, reason)


ANYBODY = Account(User("", "", "", ()), Users(CacheEpoch()))
"""The account of a request to a route that needs no credentials: it sees nothing."""


def denied(user: str, reason: str) -> Problem:
    """Log and return the refusal of a request of a user that has logged in."""
    log.warning("HTTP request: access denied: user '%s' - %s", user, reason, extra={"user": user})
    return Problem(401, "not_authorised", reason, early=True)


def hidden() -> Problem:
    """404: the user may not know that there is the virtual host, in RabbitMQ 4."""
    return Problem(404, "not_found", "Not Found", early=True)


def account(registry: Registry, peer: Peer, authorization: str) -> Account:
    """Return the user whose credentials the header Authorization has. Raises Problem 400, 401 or 429."""
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
        raise _refused(refused, registry.broker.personality.login_refusal)
    return Account(registry.broker.users.by_name[login.user], registry.broker.users)


def _refused(refused: authenticate.LoginRefusal, words: str) -> Problem:
    if refused.throttled:
        after = {"retry-after": str(math.ceil(refused.throttled))}
        return Problem(429, "too_many_requests", "Too many wrong passwords", after)
    if refused.reason == authenticate.LOOPBACK_ONLY:
        return Problem(401, "not_authorised", "User can only log in via localhost", CHALLENGE)
    challenge = CHALLENGE if words == LOGIN_FAILED else {}
    return Problem(401, "not_authorized", words, challenge, delay=refused.delay)
