"""The port for Prometheus as an ASGI application: /metrics, in total or per object, without credentials."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from broker.management.prometheus.exposition import CONTENT_TYPE, exposition
from broker.management.prometheus.metric_groups import Parts
from broker.management.prometheus.registries import Registries
from broker.management.request_client import client_of
from broker.management.responses import takes_gzip

METHODS = "GET, HEAD, OPTIONS"
PATH = "/metrics"
TEXT_RANGES = frozenset({"*/*", "text/*", "text/plain"})
GZIP_WINDOW, GZIP_LEVEL = 31, 1

Registry = Callable[[Request], Parts]


class MetricsApplication:
    """Answers scrapes."""

    def __init__(self, registries: Registries) -> None:
        self._registries: dict[str, Registry] = {
            "": lambda request: registries.default(),
            "default": lambda request: registries.default(),
            "per-object": lambda request: registries.per_object(),
            "detailed": lambda request: registries.detailed(
                request.query_params.getlist("family"), request.query_params.getlist("vhost")
            ),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refused = self._refusal(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        client_of(request.scope).admit()
        await self._send(request, send)

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

    async def _send(self, request: Request, send: Send) -> None:
        gzip = takes_gzip(request)
        headers = [
            (b"content-type", CONTENT_TYPE.encode()),
            (b"content-encoding", b"gzip" if gzip else b"identity"),
            (b"vary", b"accept-encoding"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        compressor = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW) if gzip else None
        async with aclosing(exposition(self._registries[_registry(request)](request))) as pieces:
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
