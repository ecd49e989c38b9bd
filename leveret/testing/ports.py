"""Ports that stay free for one broker, also while it is down."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


class Port:
    """A port of this machine that the system gives to no other program until this is closed.

    A socket that never listens is bound to it; on Linux another may listen there if both set SO_REUSEADDR.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]

    @property
    def address(self) -> str:
        """The address as an option of `leveret serve`."""
        return f"{LOOPBACK}:{self.number}"

    def close(self) -> None:
        """Release the port."""
        self._socket.close()
