"""The files of the web page, with their headers for browsers.

The page may load its own files and call the API that serves it. Everything else is forbidden: scripts in its HTML,
frames around it, its address as a referrer. The API's answers have RabbitMQ's policy, which RabbitMQ's page needs.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

FILES = Path(__file__).parent / "page"
OWN_FILES = "script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
POLICY = f"default-src 'none'; {OWN_FILES}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
HEADERS = {
    "content-security-policy": POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Headers of all files. `no-cache`: browsers ask each time if a file has changed, as it has after an upgrade."""


class WebPage:
    """The files of the page as an ASGI application; other paths go to `otherwise`. Paths are percent-encoded."""

    def __init__(self, otherwise: ASGIApp) -> None:
        self._files = StaticFiles(directory=FILES, html=True)
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await self._files({**scope, "path": unquote(scope["path"])}, receive, with_headers)
        except HTTPException:  # there is no such file, or the method is not GET
            await self._otherwise(scope, receive, send)
