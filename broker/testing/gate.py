"""Keeps clients waiting while the broker is reset or restored."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from broker.testing.faults.faulty_sockets import readable


class Gate:
    """While it is closed no socket is read: clients that connect are served when it is open again."""

    def __init__(self) -> None:
        self._open = trio.Event()
        self._open.set()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Close the gate while the body runs."""
        self._open = trio.Event()
        try:
            yield
        finally:
            self._open.set()

    async def readable(self, sock: socket.socket) -> None:
        """Wait until a socket is readable and the gate open."""
        await readable(sock)
        if not self._open.is_set():
            await self._open.wait()
