"""Throttling of wrong passwords: each further one delays longer.

A guess is a wrong password that was not tried before for the same user from the same address. A program with an
old password repeats it, learns nothing, and must not lock out others at its address. Guesses are counted in three ways:

- By address and user: beyond the limit, logins of this user from this address are refused without a look at the
  password for a time that doubles with each further guess. A login with the right password after that time clears the
  user's guesses.
- By address, for all users, at ten times the limit: the same for all logins from it.
- By user, from any address: refusals are answered later. The right password is accepted at once, so nobody can lock a
  user out from elsewhere.

Loopback addresses are not counted: all users of this machine share them.
The memory is bounded, the oldest entries are dropped; passwords are kept as a hash with a key of this process.
"""

from __future__ import annotations

import ipaddress
import os
from hashlib import blake2b
from typing import NamedTuple

from broker.session.login.sasl import Login

KEPT_BEYOND_LIMIT = 16
"""Wrong passwords remembered beyond the limit: the wait, doubled 16 times, has reached its maximum by then."""
WATCHED_MAX = 2048
"""Entries of one counter."""
USERS_OF_ADDRESS = 10
"""The limit of an address is this many times that of a user at it."""
FIRST_WAIT = 1000
"""Milliseconds after the first guess beyond the limit."""
DIGEST_BYTES = 8
IPV6_SITE_BITS = 64
"""Prefix length of the network that one IPv6 site has at least."""


class ThrottleLimits(NamedTuple):
    """Guesses that are free within `window` seconds (0: throttling is off); `wait_max`: the longest wait in seconds."""

    free: int = 10
    window: float = 3600.0
    wait_max: float = 60.0


class Throttled:
    """Times of the wrong passwords of one address, user or pair, by digest; `until`: end of its wait."""

    __slots__ = ("until", "wrong_passwords")

    def __init__(self) -> None:
        self.wrong_passwords: dict[bytes, int] = {}
        self.until = 0


class Watch:
    """Wrong passwords of up to WATCHED_MAX names, each an address, a user or a pair. Times are milliseconds."""

    def __init__(self, free: int, window: int, wait_max: int) -> None:
        self._free = free
        self._window = window
        self._wait_max = wait_max
        self.throttled: dict[str, Throttled] = {}

    def wait(self, name: str, now: int) -> int:
        """Return how long the name still has to wait; 0 if it does not."""
        entry = self.throttled.get(name)
        return 0 if entry is None else max(0, entry.until - now)

    def failed(self, name: str, digest: bytes, now: int) -> None:
        """Note a wrong password."""
        entry = self.throttled.pop(name, None) or Throttled()
        self.throttled[name] = entry  # as the latest: the first is dropped when there are too many
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
        """Forget the wrong passwords of a user; `user` is the digest with which theirs begin."""
        entry = self.throttled.get(name)
        if entry is None:
            return
        entry.wrong_passwords = {old: at for old, at in entry.wrong_passwords.items() if not old.startswith(user)}
        if not entry.wrong_passwords:
            del self.throttled[name]
        elif len(entry.wrong_passwords) <= self._free:
            entry.until = 0


class LoginThrottle:
    """Wrong passwords by address, by user, and by both. `now` is in milliseconds, waits are in seconds."""

    def __init__(self, limits: ThrottleLimits) -> None:
        window, wait_max = int(limits.window * 1000), int(limits.wait_max * 1000)
        self._on = limits.free > 0
        self._secret = os.urandom(16)
        self.pairs = Watch(limits.free, window, wait_max)
        self.addresses = Watch(limits.free * USERS_OF_ADDRESS, window, wait_max)
        self.users = Watch(limits.free, window, wait_max)

    def wait(self, host: str, login: Login, now: int) -> float:
        """Return for how many seconds such logins are refused without a look at the password; 0: look at it."""
        if login.password is None or not (self.pairs.throttled or self.addresses.throttled):
            return 0.0
        address = site(host)
        return max(self.pairs.wait(_pair(address, login), now), self.addresses.wait(address, now)) / 1000

    def wrong(self, host: str, login: Login, now: int, *, loopback: bool) -> float:
        """Note a wrong password, and return how many seconds longer than usual the answer has to take."""
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
        """Note a right password: the user's wrong ones from this address were mistyped."""
        if login.password is None or not (self.pairs.throttled or self.addresses.throttled):
            return
        address, user = site(host), self._digest(login.user.encode("utf-8", "surrogateescape"))
        self.pairs.forget(_pair(address, login), user)
        self.addresses.forget(address, user)

    def forget_all(self) -> None:
        """Forget all wrong passwords."""
        for watch in (self.pairs, self.addresses, self.users):
            watch.throttled.clear()

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, key=self._secret, digest_size=DIGEST_BYTES).digest()


def site(host: str) -> str:
    """Return the part of an address that one site owns: all of an IPv4 address, the /64 network of an IPv6 one."""
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
