"""Definitions from a URL: a file, or what the HTTP API of a broker answers."""

from __future__ import annotations

import ssl
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import trio

from broker.admin.definitions.definitions_file import DefinitionsFile, parse, read_file
from broker.admin.protocol import AdministrationError, invalid
from broker.config import MEBIBYTE

ANSWER_BYTES_MAX = 64 * MEBIBYTE
"""The limit of a URL's answer. Definitions of 100,000 queues are a third of it."""
ANSWER_SECONDS = 30.0
"""The limit for a whole answer, connecting included."""


async def read_url(where: str, seconds: float = ANSWER_SECONDS) -> DefinitionsFile:
    """Read a file, or within `seconds` the answer of an HTTP or HTTPS URL, which may have a user and a password.

    Raises AdministrationError `invalid`, which names the URL without its password, and the fault.
    """
    url = _parsed(where)
    if url.scheme == "file":
        return read_file(Path(unquote(url.path)))
    with trio.move_on_after(seconds):
        content = await trio.to_thread.run_sync(_fetch, url, seconds, abandon_on_cancel=True)
        return parse(content, _shown(url))
    raise invalid(f"{_shown(url)}: has not answered in full within {seconds:g} s")


def _parsed(where: str) -> SplitResult:
    try:
        url = urlsplit(where)
        usable = url.scheme == "file" or (url.scheme in ("http", "https") and url.hostname and url.port != 0)
    except ValueError:  # a malformed port
        usable = False
    if not usable:
        shown = "something else" if "@" in where else where
        raise invalid(f"definitions: expected a file, or a URL with file, http or https and a host, got {shown}")
    return url


def _fetch(url: SplitResult, seconds: float) -> bytes:
    connection = _connection(url, seconds)
    try:
        connection.request(
            "GET", url._replace(scheme="", netloc="", fragment="").geturl() or "/", headers=_headers(url)
        )
        with connection.getresponse() as answer:
            if answer.status != 200:
                raise invalid(f"{_shown(url)}: answered {answer.status} {answer.reason}{_hint(answer.status)}")
            content = answer.read(ANSWER_BYTES_MAX + 1)
    except AdministrationError:
        raise
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a path that cannot be sent
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise invalid(f"{_shown(url)}: cannot be read: {reason}") from error
    finally:
        connection.close()
    if len(content) > ANSWER_BYTES_MAX:
        raise invalid(f"{_shown(url)}: answers more than {ANSWER_BYTES_MAX} bytes")
    return content


def _connection(url: SplitResult, seconds: float) -> HTTPConnection:
    assert url.hostname is not None
    if url.scheme == "https":
        return HTTPSConnection(url.hostname, url.port, timeout=seconds, context=ssl.create_default_context())
    return HTTPConnection(url.hostname, url.port, timeout=seconds)


def _headers(url: SplitResult) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if url.username is not None:
        login = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
        headers["Authorization"] = f"Basic {b64encode(login).decode()}"
    return headers


def _hint(status: int) -> str:
    if status == 401:
        return ": expected the user and password of an administrator in the URL"
    return ": redirects are not followed" if 300 <= status < 400 else ""


def _shown(url: SplitResult) -> str:
    """Return a URL without credentials, for logs."""
    return url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
