"""Names by which the HTTP listeners may be called, in the header Host.

A page of another site can have its own name lead to 127.0.0.1 (DNS rebinding). The browser then takes the broker for
that site: the page reads and changes whatever guest may. The name in Host gives it away. A listener on loopback is for
programs of this machine, so it answers to names of this machine; others answer to any, unless names are set.
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
"""How much of it is read: it takes a millisecond."""

_PORT = re.compile(r":[0-9]*$")
_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")
"""The end of what browsers take for an IPv4 address, in whichever form, and never ask DNS for (URL Standard, 3.5)."""
_SHOWN = re.compile(r"[a-z0-9._-]{1,253}")


class HostNames:
    """`configured`: names that the settings add, `*.example.com` for all below one, `*` for any.

    `own` is the machine's name; `hosts` is the system's table of names, in which its whole name and others of
    loopback stand. DNS is not asked: it may be the attacker's.
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
        """Heed the address of a listener: one on loopback answers to this machine's names alone."""
        if _is_loopback(host):
            self._loopback.add((host, port))

    def guarded(self, app: ASGIApp) -> ASGIApp:
        """The application, for requests by names that are right; others are answered 421."""

        async def checked(scope: Scope, receive: Receive, send: Send) -> None:
            name = host_of(Request(scope))
            concerned = not self._any and (self._everywhere or scope["server"] in self._loopback)
            if concerned and not await self.known(name):
                await problem_response(_refused(Request(scope), name))(scope, receive, send)
            else:
                await app(scope, receive, send)

        return checked

    async def known(self, name: str) -> bool:
        """The name is an address, one of this machine's, or set."""
        literal = name.startswith("[") or _NUMBER.search(name)
        if literal or name in self._names or name.endswith(self._below):
            return True
        return await trio.to_thread.run_sync(self._is_alias, name)

    def _is_alias(self, name: str) -> bool:
        """The system's table has the name for loopback or beside the machine's: browsers ask it before DNS."""
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
    """The name in Host, without its port, in lower case; empty where there is none: no browser leaves it out."""
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
