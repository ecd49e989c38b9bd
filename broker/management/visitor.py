"""What the server that carries HTTP and the application know of each other, beyond ASGI."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from broker.management.places import Places
from broker.session.peer import Peer

SCOPE_KEY = "leveret.visitor"
"""Where an ASGI scope's extensions have its visitor."""


class Visitor:
    """The client behind one request. `admit` is called once it has shown valid credentials: from then on its
    connection is not closed to make room for others, while it takes its answer."""

    def __init__(self, peer: Peer, admit: Callable[[], None], places: Places) -> None:
        self.peer = peer
        self.admit = admit
        self._places = places

    def working(self) -> AbstractAsyncContextManager[None]:
        """To be entered for a part of the work that an answer takes, and left before it is sent."""
        return self._places.place(self.peer.host)


def visitor_in(scope: MutableMapping[str, Any]) -> Visitor:
    """The client behind a request, from its ASGI scope."""
    visitor: Visitor = scope["extensions"][SCOPE_KEY]
    return visitor
