"""The client behind a request: what the HTTP server tells the application beyond ASGI."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from broker.management.work_slots import WorkSlots
from broker.session.peer import Peer

SCOPE_KEY = "leveret.client"
"""The key of a RequestClient in the extensions of an ASGI scope."""


class RequestClient:
    """The client behind one request.

    `admit` is to be called once the credentials have proved valid. From then on the connection is not closed in favour
    of others while the client takes its answer.
    """

    def __init__(self, peer: Peer, admit: Callable[[], None], slots: WorkSlots) -> None:
        self.peer = peer
        self.admit = admit
        self._slots = slots

    def working(self) -> AbstractAsyncContextManager[None]:
        """Return a context for a part of the work on an answer; to be left while the part is sent."""
        return self._slots.slot(self.peer.host)


def client_of(scope: MutableMapping[str, Any]) -> RequestClient:
    """The client behind a request, from its ASGI scope."""
    client: RequestClient = scope["extensions"][SCOPE_KEY]
    return client
