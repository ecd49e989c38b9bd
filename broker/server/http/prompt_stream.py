"""A socket of the HTTP server as a stream that acknowledges the pieces of a request at once."""

from __future__ import annotations

import socket

import trio

from broker.server.net.prompt_acks import acknowledge


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
