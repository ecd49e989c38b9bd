"""Checks logins, the same for AMQP and HTTP: passwords, users who may log in over loopback only (guest), throttling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from broker.session.login import passwords

if TYPE_CHECKING:
    from broker.entities.node.users import User
    from broker.session.login.sasl import Login
    from broker.session.peer import Peer
    from broker.session.registry import Registry

INVALID = "invalid credentials"
LOOPBACK_ONLY = "can only connect via localhost"


class LoginRefusal(NamedTuple):
    """A refused login. The reason is for the log only. Times are seconds.

    `throttled`: remaining time in which such logins are refused without a look at the password; 0 if it was checked.
    `delay`: time to be added before the client is answered.
    """

    reason: str
    throttled: float = 0.0
    delay: float = 0.0


def check_login(registry: Registry, peer: Peer, login: Login, protocol: str) -> LoginRefusal | None:
    """Check a login and remember a wrong password; None if it is accepted. Counted in the statistics of `protocol`."""
    refused = _check(registry, peer, login)
    registry.broker.statistics.logins[protocol].count(succeeded=refused is None)
    return refused


def _check(registry: Registry, peer: Peer, login: Login) -> LoginRefusal | None:
    throttle, now = registry.login_throttle, registry.broker.clock.now()
    wait = throttle.wait(peer.host, login, now)
    if wait:
        counts = f"the next one counts in {math.ceil(wait)} s"
        return LoginRefusal(f"too many wrong passwords from {peer.host}, {counts}", throttled=wait)
    user = registry.broker.users.by_name.get(login.user)
    if user is None or not _is_right(user, login):
        if user is None and login.password is not None:
            # As long as a wrong password takes, so that names of users cannot be found by timing.
            passwords.verify(login.password, *passwords.NOBODYS)
        return LoginRefusal(INVALID, delay=throttle.wrong(peer.host, login, now, loopback=peer.loopback))
    # Only after the password, as in RabbitMQ: who does not know it learns nothing about the user.
    if login.user in registry.settings.loopback_users and not peer.loopback:
        return LoginRefusal(LOOPBACK_ONLY)
    throttle.right(peer.host, login)
    return None


def _is_right(user: User, login: Login) -> bool:
    """Return whether a login proves the user: by its password, or by a certificate that is verified already."""
    return login.password is None or passwords.verify(login.password, user.password_hash, user.hashing_algorithm)
