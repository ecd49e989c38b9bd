"""Whether a login is taken, and what a wrong one costs: the same answer at every door."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from broker.session.login import sasl

if TYPE_CHECKING:
    from broker.session.peer import Peer
    from broker.session.registry import Registry


class Refusal(NamedTuple):
    """Why a login is refused, for the log alone. Times are seconds.

    `unseen`: how long logins like it are refused without a look; 0: it was looked at. `longer`: by
    how many seconds the refusal is delayed.
    """

    reason: str
    unseen: float = 0.0
    longer: float = 0.0


def refusal(registry: Registry, peer: Peer, login: sasl.Login, protocol: str) -> Refusal | None:
    """Look at a login, and remember a wrong password; None when it is taken. `protocol` is what it is counted under."""
    refused = _refusal(registry, peer, login)
    registry.broker.statistics.logins[protocol].count(succeeded=refused is None)
    return refused


def _refusal(registry: Registry, peer: Peer, login: sasl.Login) -> Refusal | None:
    throttle, now = registry.login_throttle, registry.broker.clock.now()
    wait = throttle.wait(peer.host, login, now)
    if wait:
        counts = f"the next one counts in {math.ceil(wait)} s"
        return Refusal(f"too many wrong passwords from {peer.host}, {counts}", unseen=wait)
    user = registry.broker.users.by_name.get(login.user)
    reason = sasl.refusal(user, login, registry.settings.loopback_users, loopback=peer.loopback)
    if reason is None:
        throttle.right(peer.host, login)
        return None
    wrong = reason == sasl.INVALID
    longer = throttle.wrong(peer.host, login, now, loopback=peer.loopback) if wrong else 0.0
    return Refusal(reason, longer=longer)
