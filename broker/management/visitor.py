"""What the server that carries HTTP and the application know of each other, beyond ASGI."""

from __future__ import annotations

from collections.abc import Callable

from broker.session.peer import Peer

SCOPE_KEY = "leveret.visitor"
"""Where an ASGI scope's extensions have its visitor."""


class Visitor:
    """The client behind one request. `admit` is called once it has shown valid credentials: from then on its
    connection is not closed to make room for others."""

    def __init__(self, peer: Peer, admit: Callable[[], None]) -> None:
        self.peer = peer
        self.admit = admit
