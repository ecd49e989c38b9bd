"""The web page: its files, and what they say to browsers.

The page may load its own files and ask the API that serves it: nothing else, no script in its HTML, no frame around it,
and no other site learns its address. The API's answers have RabbitMQ's policy, because its page loads its own files.
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
"""A browser asks each time whether a file has changed: after an upgrade it has."""


class WebPage:
    """The files of the page as an ASGI application; what is none of them is for another one.

    Paths come percent-encoded.
    """

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
