"""Answers of the API: values as JSON, and errors in the form of RabbitMQ's management plugin.

A large answer is encoded, compressed and sent in pieces, in short steps. A long list is computed no faster than the
client reads it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from broker.admin.short_steps import in_steps, pause_if_due
from broker.management.request_client import client_of

GZIP_BYTES_MIN = 300
"""Smallest answer that is compressed for clients that accept gzip."""
_GZIP_WINDOW = 31
_FAST = 1
PIECE_BYTES = 64 * 1024
"""Approximate size of a piece: copying it takes some ten microseconds."""
COMPRESSED_AT_ONCE = 32 * 1024
"""Bytes that are compressed between two checks of the time: this takes some 0.3 ms."""

VARY = ("vary", "accept, accept-encoding, origin")
VARY_OF_ONE_TYPE = "accept-encoding, origin"
VARY_BEFORE = "origin, accept-encoding"
"""The header of answers that RabbitMQ 4 gives before it has chosen a media type, and of those with one type only."""
SECURITY = {
    "content-security-policy": "script-src 'self' 'unsafe-eval' 'unsafe-inline'; object-src 'self'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "SAMEORIGIN",
}
"""Headers of every answer for browsers: RabbitMQ's policy for its page, no guessing of types, no frames elsewhere."""
NAMED = {"content-security-policy": "script-src 'self'; object-src 'self'"}
NOT_KEPT = ", max-age=0, must-revalidate"
CACHED = f"public{NOT_KEPT}"
EXPIRED = {"pragma": "no-cache", "expires": "0"}
"""Headers of RabbitMQ 4: of all answers, of those that are no JSON value, and of those to anybody."""


class Problem(Exception):
    """A refusal of a request. Without an error the answer has no body.

    `delay`: seconds for which the answer is held back. `early`: the user may not make the request, whatever it holds.
    """

    def __init__(
        self,
        status: int,
        error: str = "",
        reason: object = "",
        headers: Mapping[str, str] | None = None,
        *,
        delay: float = 0.0,
        early: bool = False,
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = dict(headers or {})
        self.delay = delay
        self.early = early


def not_found() -> Problem:
    """404: there is no such object, or no such route."""
    return Problem(404, "Object Not Found", "Not Found")


def vhost_not_found(reason: str = "") -> Problem:
    """404: the virtual host of a change does not exist."""
    return Problem(404, "not_found", "vhost_not_found")


def bad_request(reason: object) -> Problem:
    """400: the request is invalid."""
    return Problem(400, "bad_request", reason)


def problem_response(problem: Problem) -> Response:
    """The answer for a problem."""
    headers = {**SECURITY, "vary": "origin", **problem.headers}
    if not problem.error:
        return Response(b"", problem.status, headers)
    headers["content-type"] = "application/json"
    return Response(encoded({"error": problem.error, "reason": problem.reason}), problem.status, headers)


def name_headers(response: Response, allow: str, vary: str, *, kept: bool = True) -> None:
    """Complete the headers of an answer as RabbitMQ 4 does. `kept`: caches may keep it, if they ask about it again."""
    response.headers.update({**NAMED, "allow": allow, "vary": vary, **({} if kept else EXPIRED)})
    response.headers.setdefault("cache-control", CACHED if kept else f"no-cache, no-store{NOT_KEPT}")


def encoded(value: object) -> bytes:
    """Encode a value as JSON. Names that are not UTF-8 become escaped surrogates."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def empty(status: int, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body: 201 created, 204 done."""
    return Response(b"", status, {**SECURITY, "vary": VARY[1], **(headers or {})})


def in_json(value: object, headers: Mapping[str, str] | None = None) -> JsonResponse:
    """The answer 200 with a value in JSON."""
    return JsonResponse([encoded(value)], headers)


class JsonArray:
    """A JSON list in pieces of at least PIECE_BYTES, each ending with a row. `rows` is its length."""

    def __init__(self) -> None:
        self.rows = 0
        self._pieces: list[bytes] = []
        self._last = bytearray()

    def add(self, row: bytes) -> None:
        """Add a row that is encoded already."""
        self._last += b"," if self.rows else b"["
        self._last += row
        self.rows += 1
        if len(self._last) >= PIECE_BYTES:
            self._pieces.append(bytes(self._last))
            self._last.clear()

    def pieces(self) -> list[bytes]:
        """All pieces of the list."""
        return [*self._pieces, bytes(self._last), b"]" if self.rows else b"[]"]


async def array_in_pieces(rows: Iterable[object]) -> AsyncGenerator[bytes]:
    """Encode a list, a piece for each row. A row is computed when its piece is asked for."""
    before = b"["
    async with aclosing(in_steps(rows)) as made:
        async for row in made:
            yield before + encoded(row)
            before = b","
    yield b"[]" if before == b"[" else b"]"


class JsonResponse(Response):
    """The answer 200 with JSON in pieces.

    A generator of pieces is run no faster than the client reads, so a list of any length takes little memory. Its
    answer has a content-length up to PIECE_BYTES, and is chunked beyond.
    """

    media_type = "application/json"

    def __init__(
        self, pieces: Sequence[bytes] | AsyncGenerator[bytes], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, 200, {**SECURITY, "cache-control": "no-cache", VARY[0]: VARY[1], **(headers or {})})
        del self.headers["content-length"]  # Response has set it to that of an empty body
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        working, parts = client_of(scope).working, self._parts(compressed=takes_gzip(Request(scope)))
        async with aclosing(parts):
            async with working():
                part, more = await anext(parts)  # computed before the head is sent: an error can still be answered
            if not more:
                self.headers["content-length"] = str(len(part))
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while more and scope["method"] != "HEAD":
                await send({"type": "http.response.body", "body": part, "more_body": True})
                async with working():
                    part, more = await anext(parts)
            await send({"type": "http.response.body", "body": part})

    async def _parts(self, *, compressed: bool) -> AsyncGenerator[tuple[bytes, bool]]:
        """Parts of about PIECE_BYTES, compressed if the client accepts it, each with True if another one follows."""
        whole = None if isinstance(self._pieces, AsyncGenerator) else sum(map(len, self._pieces))
        if not compressed and whole is not None:
            self.headers["content-length"] = str(whole)
        gzip = None
        async with aclosing(_at_least(PIECE_BYTES, self._pieces)) as parts:
            async for part, more in parts:
                if gzip is None and compressed and (more or len(part) >= GZIP_BYTES_MIN):
                    self.headers["content-encoding"] = "gzip"
                    gzip = zlib.compressobj(_FAST, wbits=_GZIP_WINDOW)
                yield part if gzip is None else await _compressed(gzip, part, more=more), more


async def _at_least(size: int, pieces: Sequence[bytes] | AsyncGenerator[bytes]) -> AsyncGenerator[tuple[bytes, bool]]:
    """Join and split pieces to about one size; each is returned with True if another one follows."""
    together = bytearray()
    async with aclosing(pieces if isinstance(pieces, AsyncGenerator) else in_steps(pieces)) as given:
        async for piece in given:
            for start in range(0, len(piece), size):
                if len(together) >= size:
                    yield bytes(together), True
                    together.clear()
                    await pause_if_due()
                together += piece[start : start + size]
    yield bytes(together), False


def takes_gzip(request: Request) -> bool:
    """Return True if the client accepts gzip."""
    wanted = (part.strip().partition(";") for part in request.headers.get("accept-encoding", "").split(","))
    return any(name == "gzip" and weight.replace(" ", "") not in ("q=0", "q=0.0") for name, _, weight in wanted)


async def _compressed(gzip: zlib._Compress, part: bytes, *, more: bool) -> bytes:
    done: list[bytes] = []
    for start in range(0, len(part), COMPRESSED_AT_ONCE):
        done.append(gzip.compress(part[start : start + COMPRESSED_AT_ONCE]))
        await pause_if_due()
    return b"".join(done) if more else b"".join([*done, gzip.flush()])
