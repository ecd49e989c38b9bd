"""Answers of the API: values as JSON, and what is wrong in the form of RabbitMQ's management plugin.

A large answer is encoded, compressed and sent in pieces, in short steps.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from broker.admin.short_steps import pause_if_due

GZIP_BYTES_MIN = 300
"""From this size on an answer is compressed for clients that take gzip."""
_GZIP_WINDOW = 31
_FAST = 1
PIECE_BYTES = 64 * 1024
"""How much is sent at once, roughly: copying it takes some ten microseconds."""
COMPRESSED_AT_ONCE = 32 * 1024
"""How much is compressed before the time is looked at: some 0.3 ms."""

VARY = ("vary", "accept, accept-encoding, origin")
SECURITY = {
    "content-security-policy": "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}
"""What every answer says to browsers: RabbitMQ's policy for its page, no guessing at types, no frames elsewhere."""


class Problem(Exception):
    """A request that is refused. With neither error nor reason the answer has no body.

    `delay`: seconds for which the answer is held back.
    """

    def __init__(
        self,
        status: int,
        error: str = "",
        reason: object = "",
        headers: Mapping[str, str] | None = None,
        *,
        delay: float = 0.0,
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})
        self.delay = delay


def not_found() -> Problem:
    """There is no such object, or no such route."""
    return Problem(404, "Object Not Found", "Not Found")


def bad_request(reason: object) -> Problem:
    """A request that cannot be carried out as it is."""
    return Problem(400, "bad_request", reason)


def problem_answer(problem: Problem) -> Response:
    """What the client is sent for a problem."""
    headers = {**SECURITY, "vary": "origin", **problem.headers}
    if not problem.error:
        return Response(b"", problem.status, headers)
    headers["content-type"] = "application/json"
    return Response(encoded({"error": problem.error, "reason": problem.reason}), problem.status, headers)


def encoded(value: object) -> bytes:
    """A value as JSON. Names that are not UTF-8 become escapes of their surrogates."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def empty(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body: 201 created, 204 done."""
    return Response(b"", status, {**SECURITY, "vary": VARY[1], **(headers or {})})


def in_json(value: object, headers: Mapping[str, str] | None = None) -> JsonAnswer:
    """The answer 200 with a value."""
    return JsonAnswer([encoded(value)], headers)


class JsonArray:
    """JSON of a list, in pieces of PIECE_BYTES and what the last row has beyond them. `rows`: how many it has."""

    def __init__(self) -> None:
        self.rows = 0
        self._pieces: list[bytes] = []
        self._last = bytearray()

    def add(self, row: bytes) -> None:
        """One more row, as JSON."""
        self._last += b"," if self.rows else b"["
        self._last += row
        self.rows += 1
        if len(self._last) >= PIECE_BYTES:
            self._pieces.append(bytes(self._last))
            self._last.clear()

    def pieces(self) -> list[bytes]:
        """All of it."""
        return [*self._pieces, bytes(self._last), b"]" if self.rows else b"[]"]


class JsonAnswer(Response):
    """The answer 200 with JSON in pieces, which are joined by nothing. It says its exact length, compressed or not."""

    media_type = "application/json"

    def __init__(self, pieces: Iterable[bytes], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(None, 200, {**SECURITY, "cache-control": "no-cache", VARY[0]: VARY[1], **(headers or {})})
        self.pieces = list(pieces)
        """Small ones are sent together."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = sum(map(len, self.pieces))
        if size >= GZIP_BYTES_MIN and takes_gzip(Request(scope)):
            self.headers["content-encoding"] = "gzip"
            self.pieces = await _compressed(self.pieces)
            size = sum(map(len, self.pieces))
        self.headers["content-length"] = str(size)
        await pause_if_due()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        together = bytearray()
        for piece in self.pieces:
            together += piece
            if len(together) >= PIECE_BYTES:
                await send({"type": "http.response.body", "body": bytes(together), "more_body": True})
                together.clear()
        await send({"type": "http.response.body", "body": bytes(together)})


def takes_gzip(request: Request) -> bool:
    """The client takes answers that are compressed."""
    wanted = (part.strip().partition(";") for part in request.headers.get("accept-encoding", "").split(","))
    return any(name == "gzip" and weight.replace(" ", "") not in ("q=0", "q=0.0") for name, _, weight in wanted)


async def _compressed(pieces: Iterable[bytes]) -> list[bytes]:
    compressor = zlib.compressobj(_FAST, wbits=_GZIP_WINDOW)
    done: list[bytes] = []
    for piece in pieces:
        for start in range(0, len(piece), COMPRESSED_AT_ONCE):
            done.append(compressor.compress(piece[start : start + COMPRESSED_AT_ONCE]))
            await pause_if_due()
    done.append(compressor.flush())
    return done
