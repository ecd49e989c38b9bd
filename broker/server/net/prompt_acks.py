"""Acknowledgement of TCP segments without the kernel's delay.

The kernel waits up to 40 ms with an acknowledgement, for an answer that could carry it. A client with Nagle's
algorithm (Node's amqplib and others leave it on) sends the second of two small pieces when the first is acknowledged.
So input that got no answer in its turn is acknowledged at the end of that turn. Linux only: TCP_QUICKACK.
"""

from __future__ import annotations

import socket
from contextlib import suppress

import trio


def may_be_delayed(sock: socket.socket) -> bool:
    """Return True for a TCP socket on a system that can be told to acknowledge at once; not for a Unix socket."""
    return hasattr(socket, "TCP_QUICKACK") and sock.family in (socket.AF_INET, socket.AF_INET6)


def acknowledge(sock: socket.socket) -> None:
    """Have the kernel send the acknowledgement that it holds back for this socket, if there is one."""
    if hasattr(socket, "TCP_QUICKACK"):
        with suppress(OSError):  # it is closed
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


class PromptStream(trio.abc.HalfCloseableStream):
    """A socket of the HTTP server as a stream. Input that got no answer is acknowledged before more is waited for."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        self._unanswered = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive bytes, as trio's stream does."""
        if self._unanswered:
            acknowledge(self._socket)
        data = await self._stream.receive_some(max_bytes)
        self._unanswered = True
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes, as trio's stream does."""
        self._unanswered = False
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the socket accepts bytes."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Send the end of the stream."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the socket."""
        await self._stream.aclose()
