"""Parts of a server that `[testing]` replaces by ones that inject faults (`broker/testing/faults/faulty_parts.py`)."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import NamedTuple

from broker.server.commits.commit_thread import CommitThread
from broker.server.commits.committer import NewWriter
from broker.server.net.client_sockets import ClientSockets
from broker.server.net.transport import TransportSettings
from broker.session.channel.channel import NewConfirms, new_confirms
from broker.session.peer import Peer


def take_in(sock: socket.socket, peer: Peer) -> socket.socket | None:
    """Return the socket by which a client is served; None if the connection is refused."""
    return sock


def transport_settings(handshake_timeout: float) -> TransportSettings:
    """Return the settings of the sockets of one server. Only Linux has epoll."""
    return TransportSettings(handshake_timeout, sockets=ClientSockets() if hasattr(select, "epoll") else None)


class ReplaceableParts(NamedTuple):
    """The parts, by default those of a server without `[testing]`."""

    transport: Callable[[float], TransportSettings] = transport_settings
    """Called with the time limit of a handshake, in seconds."""
    take_in: Callable[[socket.socket, Peer], socket.socket | None] = take_in
    new_confirms: NewConfirms = new_confirms
    writer: NewWriter = CommitThread


USUAL_PARTS = ReplaceableParts()
