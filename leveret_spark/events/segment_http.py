"""Sealed segments by HTTP from the broker, for readers that share no file system with it.

A request that fails or breaks off is repeated for `reconnectSeconds`; a download resumes with a Range request. Content
is verified against the checksum that the broker sends with it.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import quote, urlencode

from leveret_events.segment_names import SegmentName, parse_name
from leveret_spark.option_errors import HttpError, OptionError
from leveret_spark.options import Web

LISTED = 1000
"""Segments of one answer, the most that a broker gives."""
PIECE_BYTES = 1 << 20
FIRST_PAUSE = 0.5
PAUSE_MAX = 10.0
NOTHING: Mapping[str, str] = {}
PASSING = (408, 429, 500, 502, 503, 504)
"""Statuses and errors after which another attempt may succeed."""


class _Failed(Exception):
    """An attempt has failed, and another one may succeed; `pause`: seconds that the broker asks for."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


class _Listed(NamedTuple):
    """An answer with a list: segments and their sizes, and whether there is more behind them."""

    sizes: dict[SegmentName, int]
    more: bool


class _Part:
    """The part of a segment that was received so far, and its ETag."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.tag = ""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a request for the rest."""
        return {"Range": f"bytes={len(self.data)}-", "If-Range": self.tag} if self.data else {}

    def take(self, response: http.client.HTTPResponse) -> None:
        """Read the answer to the end. Raises _Failed when it breaks off, or is not what its checksum says."""
        if response.status != 206:
            self.data.clear()
        self.tag = response.headers.get("ETag", "")
        size = len(self.data) + int(response.headers.get("Content-Length", 0))
        while piece := response.read(PIECE_BYTES):
            self.data += piece
        if len(self.data) != size:
            raise _Failed(f"it broke off after {len(self.data)} of {size} bytes")
        if f'"{hashlib.sha256(self.data).hexdigest()}"' != self.tag:
            self.data.clear()
            raise _Failed("what came is not what its checksum says")


class SegmentHttp:
    """The sealed segments that a broker serves."""

    def __init__(self, web: Web) -> None:
        self._web = web
        self._sizes: dict[SegmentName, int] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentHttp) and other._web == self._web

    def __hash__(self) -> int:
        return hash(self._web)

    def names(self, after: Mapping[str, str] = NOTHING) -> list[SegmentName]:
        """List the segments, oldest first for each node; `after` has the last known name of a node.

        Raises HttpError.
        """
        known, found = dict(after), {}
        while True:
            listed = self._list(known)
            found.update(listed.sizes)
            if not (listed.more and listed.sizes):
                break
            known |= {name.node: str(name) for name in sorted(listed.sizes)}
        self._sizes = found
        return sorted(found)

    def size(self, name: SegmentName) -> int:
        """A segment's bytes. Raises FileNotFoundError for one that the broker has removed since, and HttpError."""
        if name not in self._sizes:
            self._patiently(lambda: self._ask_size(name))
        return self._sizes[name]

    def read(self, name: SegmentName) -> bytes:
        """A whole segment, its checksum compared.

        Raises FileNotFoundError for one that the broker has removed since, and HttpError.
        """
        part = _Part()

        def attempt() -> None:
            with self._asked(_path(name), "GET", part.headers) as response:
                part.take(response)

        self._patiently(attempt)
        return bytes(part.data)

    def _ask_size(self, name: SegmentName) -> None:
        with self._asked(_path(name), "HEAD") as response:
            self._sizes[name] = int(response.headers.get("Content-Length", 0))

    def _list(self, after: Mapping[str, str]) -> _Listed:
        query = urlencode([*(("after", name) for name in after.values()), ("limit", LISTED)])
        found: list[_Listed] = []

        def attempt() -> None:
            with self._asked(f"/api/events?{query}") as response:
                content, more = response.read(), 'rel="next"' in response.headers.get("Link", "")
                found.append(_Listed(self._sizes_in(content), more))

        self._patiently(attempt)
        return found[-1]

    def _sizes_in(self, content: bytes) -> dict[SegmentName, int]:
        try:
            named = {parse_name(segment["name"]): int(segment["bytes"]) for segment in json.loads(content)}
        except (ValueError, LookupError, TypeError):
            named = {None: 0}
        if None in named:
            raise HttpError(f"{self._web}: unexpected list of segments: not a Leveret broker, or another version")
        return {name: size for name, size in named.items() if name is not None}

    def _patiently(self, attempt: Callable[[], None]) -> None:
        """Try until it succeeds, or patience ends. Raises HttpError with what failed last."""
        deadline, pause = time.monotonic() + self._web.reconnect_seconds, FIRST_PAUSE
        while True:
            try:
                attempt()
                return
            except _Failed as failed:
                wait = max(pause, failed.pause)
                if time.monotonic() + wait > deadline:
                    raise HttpError(f"{self._web}: {failed}") from None
            time.sleep(wait)
            pause = min(2 * pause, PAUSE_MAX)

    @contextmanager
    def _asked(
        self, path: str, method: str = "GET", headers: Mapping[str, str] = NOTHING
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; yields an answer of status 200 or 206.

        Raises _Failed, FileNotFoundError, HttpError, OptionError.
        """
        web = self._web
        login = b64encode(f"{web.login.user}:{web.login.password}".encode()).decode()
        connection = self._connection()
        try:
            connection.connect()
            # Connecting has its own, usually shorter, time-out.
            connection.sock.settimeout(web.read_timeout_seconds)
            connection.request(method, web.prefix + path, headers={"Authorization": f"Basic {login}", **headers})
            response = connection.getresponse()
            if response.status not in (200, 206):
                raise self._refused(response, path)
            yield response
        # An untrusted certificate and a port without TLS are final. Other errors may pass: another attempt is made.
        except ssl.SSLCertVerificationError as error:
            raise HttpError(f"{web}: {error.verify_message}") from None
        except ssl.SSLError as error:
            if error.reason == "WRONG_VERSION_NUMBER":
                raise HttpError(f"{web}: the port does not speak TLS") from None
            raise _Failed(str(error)) from None
        except (FileNotFoundError, HttpError):
            raise
        except TimeoutError:
            raise _Failed("it does not answer in time") from None
        except (OSError, http.client.HTTPException) as error:
            raise _Failed(getattr(error, "strerror", None) or f"{type(error).__name__}: {error}") from None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        web = self._web
        if web.tls is None:
            return http.client.HTTPConnection(web.host, web.port, timeout=web.connect_timeout_seconds)
        try:
            context = web.tls.context()
        except OSError as error:  # ssl.SSLError is one
            raise OptionError(f"the files of options tlsCaFile, tlsCertFile, tlsKeyFile: {error}") from None
        return http.client.HTTPSConnection(web.host, web.port, timeout=web.connect_timeout_seconds, context=context)

    def _refused(self, response: http.client.HTTPResponse, path: str) -> Exception:
        reason = _reason(response)
        if response.status == 404 and path.startswith("/api/events/"):
            name = path.rpartition("/")[2]
            return FileNotFoundError(f"{self._web}: segment {name} is not there; the broker removes the oldest ones")
        if response.status in PASSING:
            after = response.headers.get("Retry-After", "")
            return _Failed(reason, float(after) if after.isdecimal() else 0.0)
        return HttpError(f"{self._web}: {reason}")


def _path(name: SegmentName) -> str:
    return f"/api/events/{quote(str(name))}"


def _reason(response: http.client.HTTPResponse) -> str:
    """Return the broker's reason for refusing a request, if it gives one."""
    try:
        said = json.loads(response.read(PIECE_BYTES))["reason"]
    except (ValueError, LookupError, TypeError, http.client.HTTPException):
        said = response.reason
    return f"{response.status} {said}"
