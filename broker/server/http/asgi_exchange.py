"""One request and its answer, between h11 and an ASGI application.

A request is never logged, nor h11's errors, which quote it: there may be a password in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol

import h11
import trio

from broker.config import HttpSettings
from broker.management.request_client import SCOPE_KEY, RequestClient

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

BODY_STEP_BYTES = 1 << 20
"""Part of a body for which a client has `request_timeout_seconds`."""
PIECE_BYTES = 256 * 1024
"""Piece of an answer for which a client has `send_timeout_seconds`."""
UNREAD_BYTES_MAX = 64 * 1024
"""Largest unread body that is read after the answer, so that the connection can be used again; and largest size of
further requests that are kept until the answer is sent."""


def stamp() -> list[tuple[bytes, bytes]]:
    """Return the headers of every answer: date and server."""
    return [(b"date", formatdate(usegmt=True).encode()), (b"server", b"Leveret")]


class Wire(Protocol):
    """The connection that carries an exchange."""

    async def receive(self) -> bytes:
        """Return the next bytes from the client; empty at the end of the stream."""

    async def send_all(self, data: bytes) -> None:
        """Send bytes. Raises trio.TooSlowError if the client does not accept them in time."""


class HttpExchange:
    """One request, whose head was received, and its answer. `status` is 0 until the application has answered."""

    def __init__(
        self, http: h11.Connection, head: h11.Request, wire: Wire, client: RequestClient, settings: HttpSettings
    ) -> None:
        self.status = 0
        self._http = http
        self._head = head
        self._wire = wire
        self._client = client
        self._request_seconds = settings.request_timeout_seconds
        self._deadline = float("inf")
        self._body_bytes = 0
        self._whole = False
        self._start: Message | None = None

    @property
    def ended(self) -> bool:
        """True if the answer is sent whole."""
        return self._http.our_state in (h11.DONE, h11.MUST_CLOSE)

    def scope(self, *, secured: bool) -> Message:
        """Return the request's ASGI scope (specification 2.4: `send` raises OSError if the client has gone).

        `path` is percent-encoded as received, because a name in it may contain a slash. Raises ValueError for a
        malformed target.
        """
        path, _, query = _origin_form(self._head.target.decode("ascii")).partition("?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": self._head.http_version.decode(),
            "method": self._head.method.decode(),
            "scheme": "https" if secured else "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": list(self._head.headers),
            "client": (self._client.peer.host, self._client.peer.port),
            "server": (self._client.peer.local_host, self._client.peer.local_port),
            "extensions": {SCOPE_KEY: self._client},
        }

    # The request's body

    async def receive(self) -> Message:
        """Return the next part of the body; after its end, wait for the client to disconnect.

        A client that takes too long for its body counts as disconnected.
        """
        if self._whole:
            return await self._end_of_client()
        try:
            event = await self._next_event()
        except (h11.RemoteProtocolError, trio.TooSlowError):
            return {"type": "http.disconnect"}
        if isinstance(event, h11.Data):
            return {"type": "http.request", "body": bytes(event.data), "more_body": True}
        if isinstance(event, h11.EndOfMessage):
            self._whole = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def _end_of_client(self) -> Message:
        """Wait for the end of the connection. Further requests that arrive meanwhile are kept."""
        with suppress(trio.BrokenResourceError):
            while data := await self._wire.receive():
                self._http.receive_data(data)
                if len(self._http.trailing_data[0]) > UNREAD_BYTES_MAX:
                    await trio.sleep_forever()  # the end is behind more than we keep: the answer's end cancels this
        self._http.receive_data(b"")
        return {"type": "http.disconnect"}

    async def _next_event(self) -> Any:
        if self._deadline == float("inf"):
            self._deadline = trio.current_time() + self._request_seconds
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            await self._wire.send_all(self._http.send(go_on) or b"")
        with trio.fail_at(self._deadline):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._wire.receive())
        if isinstance(event, h11.Data):
            steps = self._body_bytes // BODY_STEP_BYTES
            self._body_bytes += len(event.data)
            self._deadline += (self._body_bytes // BODY_STEP_BYTES - steps) * self._request_seconds
        return event

    async def _read_rest(self) -> None:
        """Read a short body that the application did not read: the client may send it before it reads the answer."""
        while not self._whole and self._body_bytes <= UNREAD_BYTES_MAX:
            if self._http.they_are_waiting_for_100_continue or (await self.receive())["type"] == "http.disconnect":
                return

    # The answer

    async def send(self, message: Message) -> None:
        """Send the next part of the answer; the body of an answer to HEAD is not sent."""
        if message["type"] == "http.response.start":
            self._start = message
            return
        assert self._start is not None or self.status, "the application sends a body before the start of its answer"
        body = message.get("body", b"")
        head = b""
        if self._start is not None:
            await self._read_rest()
            head, self._start = self._answer_head(self._start), None
        silent = self._head.method == b"HEAD" or self.status in (204, 304)
        data = (self._http.send(h11.Data(body)) or b"") if body and not silent else b""
        if not message.get("more_body", False):
            data += self._http.send(h11.EndOfMessage()) or b""
        data = head + data
        for start in range(0, len(data), PIECE_BYTES):
            await self._wire.send_all(data[start : start + PIECE_BYTES])

    def _answer_head(self, start: Message) -> bytes:
        self.status = start["status"]
        headers = [*stamp(), *start.get("headers", ())]
        if self._http.their_state is not h11.DONE:  # the rest of the request will not be read
            headers.append((b"connection", b"close"))
        reason = HTTPStatus(self.status).phrase.encode()
        return self._http.send(h11.Response(status_code=self.status, headers=headers, reason=reason)) or b""


def _origin_form(target: str) -> str:
    """Return path and query of a target, which may be a URL (RFC 9112, 3.2.2). Raises ValueError for other forms."""
    if target.lower().startswith(("http://", "https://")):
        host, slash, rest = target.partition("://")[2].partition("/")
        if not host or ("[" in host and "]" not in host):
            raise ValueError("a URL without a host")
        return slash + rest or "/"
    if not target.startswith("/"):
        raise ValueError("no path")
    return target
