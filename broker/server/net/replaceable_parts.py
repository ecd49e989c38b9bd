"""What of a server is chosen at its start: what serves clients, or, where tests give orders, what obeys them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

from broker.server.commits.commit_thread import CommitThread
from broker.server.commits.committer import NewWriter
from broker.server.net.transport import TransportSettings
from broker.session.channel.channel import NewConfirms, new_confirms
from broker.session.peer import Peer


def take_in(sock: socket.socket, peer: Peer) -> socket.socket | None:
    """The socket that a client is served by; None where it is sent away."""
    return sock


class ReplaceableParts(NamedTuple):
    """Each with what it is unless another is chosen."""

    transport: Callable[[float], TransportSettings] = TransportSettings
    """Made for a time in seconds that a handshake may take."""
    take_in: Callable[[socket.socket, Peer], socket.socket | None] = take_in
    new_confirms: NewConfirms = new_confirms
    writer: NewWriter = CommitThread


USUAL_PARTS = ReplaceableParts()
