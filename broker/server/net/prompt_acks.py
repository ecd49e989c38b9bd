"""Acknowledgement of TCP segments without the kernel's delay.

The kernel waits up to 40 ms with an acknowledgement, for an answer that could carry it. A client with Nagle's
algorithm (Node's amqplib and others leave it on) sends the second of two small pieces when the first is acknowledged.
So input that got no answer in its turn is acknowledged at the end of that turn. Linux only: TCP_QUICKACK.
"""

from __future__ import annotations

import socket
from contextlib import suppress

MUCH_BYTES = 64 * 1024
"""Bytes of one read above which the kernel acknowledges every second segment at once."""


def acknowledge(sock: socket.socket) -> None:
    """Have the kernel send the acknowledgement that it holds back for this socket, if there is one."""
    if hasattr(socket, "TCP_QUICKACK"):
        with suppress(OSError):  # it is closed
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class PromptAcks:
    """Acknowledgements of one socket's input that no output has carried. Counts are of its sends so far."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._may_be_delayed = hasattr(socket, "TCP_QUICKACK") and sock.family in (socket.AF_INET, socket.AF_INET6)
        self._sends = -1
        """The count at the last input; -1 if that needs no acknowledgement."""

    def received(self, size: int, sends: int) -> None:
        """Note input of `size` bytes."""
        self._sends = sends if self._may_be_delayed and size < MUCH_BYTES else -1

    def answer_comes(self) -> None:
        """Leave the acknowledgement of the last input to an answer that is on its way."""
        self._sends = -1

    def acknowledge_unanswered(self, sends: int) -> None:
        """Acknowledge the last input if nothing was sent since."""
        if self._sends == sends:
            acknowledge(self._socket)
