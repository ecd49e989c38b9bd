"""Listening sockets, and accepting connections on them."""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import trio

from broker.config import Address
from broker.session.peer import Peer

log = logging.getLogger("leveret.listeners")

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
RETRY_SECONDS = 0.1
KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPALIVE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 8}
"""TCP keepalive: after a minute of silence a probe every 15 seconds; after eight unanswered ones the peer is gone. The
minute is TCP_KEEPALIVE on macOS, TCP_KEEPIDLE elsewhere."""


UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")

LOCALHOST = {"localhost": ("127.0.0.1", "::1")}
"""Addresses of names that mean this machine whatever the resolver says (RFC 6761): clients try them in either order."""
NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""The machine does not have the address, such as ::1 where IPv6 is off."""
PORT_CHOICES = 100
"""Ports that the system may choose, until one is free at all addresses of a name."""


class ListenError(OSError):
    """An address cannot be listened on; the message names it, the reason and the remedy."""


def bind(
    addresses: list[Address], backlog: int, setting: str = "server.listen, LEVERET_LISTEN or --listen"
) -> list[socket.socket]:
    """Listen on every address of a setting. Raises ListenError, with none of them open.

    A name stands for all of its addresses that this machine has, with one port: where port 0 lets the system choose,
    it chooses for the first of them.
    """
    with ExitStack() as opened:
        listeners: list[socket.socket] = []
        for address in addresses:
            for listener in _bind(address, backlog, setting):
                opened.callback(listener.close)
                listeners.append(listener)
        opened.pop_all()
    return listeners


def _bind(address: Address, backlog: int, setting: str) -> list[socket.socket]:
    targets = _targets(address, setting)
    for _ in range(1 if address.port else PORT_CHOICES):
        try:
            return _bind_all(address, targets, backlog, setting)
        except ListenError as error:
            refused = error
            if error.errno != errno.EADDRINUSE:
                break
    raise refused


def _targets(address: Address, setting: str) -> list[tuple[socket.AddressFamily, str]]:
    """Return the addresses of a host, each with its family."""
    names = LOCALHOST.get(address.host.lower(), (address.host,))
    try:
        found = [
            (family, str(target[0]))
            for name in names
            for family, _, _, _, target in socket.getaddrinfo(
                name, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        ]
    except (OSError, UnicodeError) as error:  # UnicodeError: not a valid host name
        raise _cannot_listen(address, error, setting) from error
    return list(dict.fromkeys(found))


def _bind_all(
    address: Address, targets: list[tuple[socket.AddressFamily, str]], backlog: int, setting: str
) -> list[socket.socket]:
    """Listen on one port at all addresses that the machine has. Raises ListenError, with none of them open."""
    missing: ListenError | None = None
    with ExitStack() as opened:
        listeners: list[socket.socket] = []
        for family, host in targets:
            where = Address(host, listeners[0].getsockname()[1] if listeners else address.port)
            try:
                listener = socket.create_server(where, family=family, backlog=backlog)
            except OSError as error:
                refused = _cannot_listen(where if targets[1:] else address, error, setting)
                if error.errno not in NOT_HERE:
                    raise refused from error
                missing = missing or refused
                continue
            opened.callback(listener.close)
            listener.setblocking(False)
            listeners.append(listener)
        if missing is not None and not listeners:
            raise missing
        opened.pop_all()
    return listeners


def _cannot_listen(address: Address, error: OSError | UnicodeError, setting: str) -> ListenError:
    refused = ListenError(f"cannot listen on {address}: {_reason(error)} ({setting})")
    refused.errno = getattr(error, "errno", None)
    return refused


def _reason(error: OSError | UnicodeError) -> str:
    """Return the reason for which an address cannot be listened on, and the remedy."""
    if isinstance(error, UnicodeError | socket.gaierror):
        why = "not a host's name" if isinstance(error, UnicodeError) else error.strerror
        return f"{why}: expected an address of this machine, or a name that resolves to one"
    if error.errno == errno.EADDRINUSE:
        return "another program listens there: stop it, or choose another port"
    if error.errno == errno.EACCES:
        first = UNPRIVILEGED.read_text().strip() if UNPRIVILEGED.exists() else "1024"
        return f"ports below {first} are privileged: choose another port, or grant CAP_NET_BIND_SERVICE"
    if error.errno == errno.EADDRNOTAVAIL:
        return "no address of this machine: choose one that `ip address` lists"
    return os.strerror(error.errno) if error.errno else str(error)


async def accept_forever(
    listener: socket.socket,
    accept: Callable[[socket.socket, Peer], None],
    has_capacity: Callable[[], bool] = lambda: True,
) -> None:
    """Accept connections until the listener is closed. While `has_capacity` is False, or no descriptor is free, new
    clients wait in the backlog."""
    while listener.fileno() >= 0:
        try:
            await trio.lowlevel.wait_readable(listener)
            if not has_capacity():
                await trio.sleep(RETRY_SECONDS)
                continue
            sock, address = listener.accept()
        except BlockingIOError:
            continue
        except trio.ClosedResourceError:
            return
        except OSError as error:
            if error.errno in OUT_OF_DESCRIPTORS:
                log.error("cannot accept a connection: %s", error.strerror)
                await trio.sleep(RETRY_SECONDS)
            continue
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(sock)
            peer = _peer(address, sock.getsockname())
        except OSError:
            sock.close()  # the client has gone already
            continue
        accept(sock, peer)


def _keep_alive(sock: socket.socket) -> None:
    """Switch TCP keepalive on: without heartbeats nothing else detects that a client is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _peer(theirs: tuple[str, int], ours: tuple[str, int]) -> Peer:
    host = ipaddress.ip_address(theirs[0].partition("%")[0])
    mapped = getattr(host, "ipv4_mapped", None)
    loopback = (mapped or host).is_loopback
    return Peer(theirs[0], theirs[1], ours[0], ours[1], loopback)
