"""Mistakes that let who reads by HTTP have what belongs to all."""

from __future__ import annotations

from broker.server.http.http_server import HttpConnection
from tests.planted.mistake import Mistake


def slow_readers_stay() -> None:
    """Wait for whoever takes nothing, with a file and a connection held open."""

    async def send_all(connection: HttpConnection, data: bytes) -> None:
        await connection._stream.send_all(data)

    HttpConnection._send_all = send_all  # type: ignore[method-assign]


MISTAKES = {"slow readers stay": Mistake("I8", slow_readers_stay)}
