"""Wrong logins are delayed, longer and longer.

A guess is a wrong password that was not tried before for the same user from the same address: a program left with an
old password repeats it, learns nothing by that, and must not keep others out that share its address. Three things are
counted:

- An address and a user: beyond the limit, logins of this user from this address are refused without a look at the
  password until some time has passed, twice as much after each further guess. The right password, once it is looked
  at, forgets the user's guesses.
- An address with all users, at ten times the limit: the same for all of its logins.
- A user, from anywhere: refusals take longer. The right password is taken at once, so a user cannot be kept out
  from elsewhere.

Loopback addresses are not counted: all users of this machine share them, and one's mistakes must not delay others.
What is remembered is bounded, the oldest goes first; of passwords it is a keyed hash that ends with the process.
"""

from __future__ import annotations

import ipaddress
import os
from hashlib import blake2b
from typing import NamedTuple

from broker.session.login.sasl import Login

KEPT_BEYOND_LIMIT = 16
"""Wrong passwords beyond the limit that are remembered: the wait has reached any sensible maximum by then."""
WATCHED_MAX = 2048
USERS_OF_ADDRESS = 10
FIRST_WAIT = 1000
DIGEST_BYTES = 8
IPV6_SITE_BITS = 64
"""An IPv6 site has at least a whole network of this prefix length."""


class ThrottleLimits(NamedTuple):
    """How many guesses are free (0: all of them) within `window` seconds; `wait_max`: the longest wait in seconds."""

    free: int = 10
    window: float = 3600.0
    wait_max: float = 60.0


class Throttled:
    """The wrong passwords of one address, user or pair, by digest, with their times; `until`: the wait's end."""

    __slots__ = ("until", "wrong_passwords")

    def __init__(self) -> None:
        self.wrong_passwords: dict[bytes, int] = {}
        self.until = 0


class Watch:
    """Wrong passwords by a name for each. Times are milliseconds."""

    def __init__(self, free: int, window: int, wait_max: int) -> None:
        self._free = free
        self._window = window
        self._wait_max = wait_max
        self.throttled: dict[str, Throttled] = {}

    def wait(self, name: str, now: int) -> int:
        """How long this one still has to wait; 0: not at all."""
        entry = self.throttled.get(name)
        return 0 if entry is None else max(0, entry.until - now)

    def failed(self, name: str, digest: bytes, now: int) -> None:
        """A wrong password was tried."""
        entry = self.throttled.pop(name, None) or Throttled()
        self.throttled[name] = entry  # the latest last
        if len(self.throttled) > WATCHED_MAX:
            del self.throttled[next(iter(self.throttled))]
        wrong = entry.wrong_passwords = {
            old: at for old, at in entry.wrong_passwords.items() if at > now - self._window
        }
        if digest in wrong:
            return
        wrong[digest] = now
        if len(wrong) > self._free + KEPT_BEYOND_LIMIT:
            del wrong[next(iter(wrong))]
        if len(wrong) > self._free:
            entry.until = now + min(self._wait_max, FIRST_WAIT << (len(wrong) - self._free - 1))

    def forget(self, name: str, user: bytes) -> None:
        """Forget the wrong passwords for a user, whose digest begins all of them."""
        entry = self.throttled.get(name)
        if entry is None:
            return
        entry.wrong_passwords = {old: at for old, at in entry.wrong_passwords.items() if not old.startswith(user)}
        if not entry.wrong_passwords:
            del self.throttled[name]
        elif len(entry.wrong_passwords) <= self._free:
            entry.until = 0


class LoginThrottle:
    """What is known of wrong passwords. Times come in as milliseconds, waits go out as seconds."""

    def __init__(self, limits: ThrottleLimits) -> None:
        window, wait_max = int(limits.window * 1000), int(limits.wait_max * 1000)
        self._on = limits.free > 0
        self._secret = os.urandom(16)
        self.pairs = Watch(limits.free, window, wait_max)
        self.addresses = Watch(limits.free * USERS_OF_ADDRESS, window, wait_max)
        self.users = Watch(limits.free, window, wait_max)

    def wait(self, host: str, login: Login, now: int) -> float:
        """Seconds in which logins like this one are refused unseen; 0: it is to be looked at."""
        if login.password is None or not (self.pairs.throttled or self.addresses.throttled):
            return 0.0
        address = site(host)
        return max(self.pairs.wait(_pair(address, login), now), self.addresses.wait(address, now)) / 1000

    def wrong(self, host: str, login: Login, now: int, *, loopback: bool) -> float:
        """The password was wrong; how many seconds longer than usual the refusal takes."""
        if login.password is None or loopback or not self._on:
            return 0.0
        user = self._digest(login.user.encode("utf-8", "surrogateescape"))
        digest = user + self._digest(user + login.password)
        address = site(host)
        self.pairs.failed(_pair(address, login), digest, now)
        self.addresses.failed(address, digest, now)
        self.users.failed(login.user, digest, now)
        return self.users.wait(login.user, now) / 1000

    def right(self, host: str, login: Login) -> None:
        """The password was right: its owner may have mistyped it before."""
        if login.password is None or not (self.pairs.throttled or self.addresses.throttled):
            return
        address, user = site(host), self._digest(login.user.encode("utf-8", "surrogateescape"))
        self.pairs.forget(_pair(address, login), user)
        self.addresses.forget(address, user)

    def forget_all(self) -> None:
        """Nothing is known of wrong passwords any more."""
        for watch in (self.pairs, self.addresses, self.users):
            watch.throttled.clear()

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, key=self._secret, digest_size=DIGEST_BYTES).digest()


def site(host: str) -> str:
    """What identifies the owner of an address: all of it, or the network half of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, IPV6_SITE_BITS), strict=False))


def _pair(address: str, login: Login) -> str:
    return f"{address} {login.user}"
