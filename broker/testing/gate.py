"""Where clients wait while what they use is replaced."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from broker.testing.faults.faulty_sockets import readable


class Gate:
    """Nothing that clients send is read while it is closed: those that connect are served when it is open again."""

    def __init__(self) -> None:
        self._open = trio.Event()
        self._open.set()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let nothing through until this is left."""
        self._open = trio.Event()
        try:
            yield
        finally:
            self._open.set()

    async def readable(self, sock: socket.socket) -> None:
        """Wait until there is something that may be read."""
        await readable(sock)
        if not self._open.is_set():
            await self._open.wait()
