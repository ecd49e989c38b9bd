"""The port for Prometheus as an ASGI application: /metrics, in total or per object, without credentials."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from broker.admin.node.memory_parts import memory_parts
from broker.entities.arguments.name_patterns import InvalidPattern
from broker.management.prometheus.exposition import CONTENT_TYPE, exposition
from broker.management.prometheus.metric_groups import Parts
from broker.management.prometheus.registries import Registries
from broker.management.request_client import client_of
from broker.management.responses import takes_gzip

METHODS = "GET, HEAD, OPTIONS"
PATH = "/metrics"
TEXT_RANGES = frozenset({"*/*", "text/*", "text/plain"})
GZIP_WINDOW, GZIP_LEVEL = 31, 1

Registry = Callable[[Request], Awaitable[Parts]]


class MetricsApplication:
    """Answers scrapes."""

    def __init__(self, registries: Registries) -> None:
        self._of = registries
        self._registries: dict[str, Registry] = {
            "": self._default,
            "default": self._default,
            "per-object": self._per_object,
            "detailed": self._detailed,
            **({"memory-breakdown": self._memory_breakdown} if registries.as_4 else {}),
        }

    async def _default(self, request: Request) -> Parts:
        return self._of.default()

    async def _per_object(self, request: Request) -> Parts:
        return self._of.per_object()

    async def _detailed(self, request: Request) -> Parts:
        asked = request.query_params
        queues = self._of.chosen_queues(asked.getlist("vhost"), asked.get("queue", ""))
        return self._of.detailed(asked.getlist("family"), queues)

    async def _memory_breakdown(self, request: Request) -> Parts:
        return self._of.memory_breakdown(await memory_parts(self._of.administration))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refused = self._refusal(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        client_of(request.scope).admit()
        try:
            parts = await self._registries[_registry(request)](request)
        except InvalidPattern as error:
            text = f"Invalid 'queue' regex at position {error.position}: {error.reason}"
            await Response(text.encode(), 400)(scope, receive, send)
            return
        await self._send(request, parts, send)

    def _refusal(self, request: Request) -> Response | None:
        """The answer to a request that is not a scrape, with RabbitMQ's status codes; None for a scrape."""
        path, method = request.scope["path"], request.method
        if path != PATH and (not path.startswith(f"{PATH}/") or "/" in path.removeprefix(f"{PATH}/")):
            return Response(b"", 404)
        if method == "OPTIONS":
            return Response(b"", 200, {"allow": METHODS})
        if method not in ("GET", "HEAD"):
            return Response(b"", 405, {"allow": METHODS})
        if not _takes_text(request):
            return Response(b"", 406)
        if method == "HEAD":
            return Response(None, 204)
        return Response(b"Unknown Registry", 404) if _registry(request) not in self._registries else None

    async def _send(self, request: Request, parts: Parts, send: Send) -> None:
        gzip = takes_gzip(request)
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-encoding", b"gzip" if gzip else b"identity"),
            (b"vary", b"accept-encoding"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW) if gzip else None
        async with aclosing(exposition(parts)) as pieces:
            while (body := await _next_part(request, pieces, compressor)) is not None:
                await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": compressor.flush() if compressor else b""})


async def _next_part(
    request: Request, pieces: AsyncGenerator[bytes], compressor: zlib._Compress | None
) -> bytes | None:
    """The next part of a scrape; None at its end."""
    async with client_of(request.scope).working():
        piece = await anext(pieces, None)
        return compressor.compress(piece) if piece is not None and compressor is not None else piece


def _registry(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(PATH).removeprefix("/")


def _takes_text(request: Request) -> bool:
    ranges = [part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").split(",")]
    return not TEXT_RANGES.isdisjoint(ranges)
