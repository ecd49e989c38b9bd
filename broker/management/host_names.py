"""Names that the HTTP listeners accept in the header Host.

A page of another site can have its own name resolve to 127.0.0.1 (DNS rebinding). The browser then takes the broker for
that site, and the page reads and changes whatever guest may. The header Host still has the site's name. A listener on
loopback is for programs of this machine, so it accepts names of this machine; others accept any, unless names are set.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from collections.abc import Iterable
from pathlib import Path

import trio
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.management.request_client import client_of
from broker.management.responses import Problem, problem_response

log = logging.getLogger("leveret.http")

ANY = "*"
HOSTS = Path("/etc/hosts")
HOSTS_BYTES_MAX = 64 * 1024
"""Bytes of it that are read: this takes a millisecond."""

_PORT = re.compile(r":[0-9]*$")
_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")
"""The end of a name that browsers take for an IPv4 address and do not resolve by DNS (URL Standard, 3.5)."""
_SHOWN = re.compile(r"[a-z0-9._-]{1,253}")


class HostNames:
    """The names that listeners accept.

    `configured` are names of the settings: `*.example.com` means all below a name, `*` any name. `own` is the machine's
    name. `hosts` is the system's table of names, which has the full name and aliases of loopback. DNS is not asked: the
    attacker may control it.
    """

    def __init__(self, configured: Iterable[str], own: str, hosts: Path = HOSTS) -> None:
        wanted = [name.lower() for name in configured]
        self._own = _plain(own)
        self._any = ANY in wanted
        self._everywhere = bool(wanted)
        self._names = {"", "localhost", self._own, self._own.partition(".")[0], *wanted}
        self._below = (".localhost", *(name[1:] for name in wanted if name.startswith("*.")))
        self._hosts = hosts
        self._loopback: set[tuple[str, int]] = set()

    def listen_on(self, host: str, port: int) -> None:
        """Add the address of a listener; one on loopback accepts only names of this machine."""
        if _is_loopback(host):
            self._loopback.add((host, port))

    def guarded(self, app: ASGIApp) -> ASGIApp:
        """Return the application behind the check of Host; other names are answered 421."""

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            name = host_of(Request(scope))
            concerned = not self._any and (self._everywhere or scope["server"] in self._loopback)
            if concerned and not await self.known(name):
                await problem_response(_refused(Request(scope), name))(scope, receive, send)
            else:
                await app(scope, receive, send)

        return checked

    async def known(self, name: str) -> bool:
        """Return True for an address, a name of this machine, or a configured name."""
        literal = name.startswith("[") or _NUMBER.search(name)
        if literal or name in self._names or name.endswith(self._below):
            return True
        return await trio.to_thread.run_sync(self._is_alias, name)

    def _is_alias(self, name: str) -> bool:
        """Return True if the system's table, which browsers ask before DNS, has the name for this machine."""
        try:
            with self._hosts.open("rb") as file:
                table = file.read(HOSTS_BYTES_MAX)
        except OSError:
            return False
        if name.encode("latin-1") not in table.lower():
            return False
        rows = (line.partition("#")[0].lower().split() for line in table.decode("latin-1").splitlines())
        return any(name in row[1:] and (self._own in row[1:] or _is_loopback(row[0])) for row in rows)


def host_of(request: Request) -> str:
    """The name in Host in lower case without its port; empty if there is no Host, which every browser sends."""
    return _plain(_PORT.sub("", request.headers.get("host", "")))


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _refused(request: Request, name: str) -> Problem:
    shown = f"'{name}'" if _SHOWN.fullmatch(name) else "the name in the header Host"
    peer = client_of(request.scope).peer
    reason = f"{shown} is no name of this machine (management.host_names has further names by which it may be called)"
    log.warning("HTTP request of %s: refused: %s", peer, reason, extra={"connection": str(peer)})
    return Problem(421, "misdirected_request", reason)
