"""Requests of `rabbitmqadmin` to the management API."""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64encode
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

REDIRECTS_MAX = 5


class Endpoint(NamedTuple):
    """A management API: its address, `base`, the path before all others, and the login."""

    host: str
    port: int
    base: str
    username: str
    password: str
    seconds: float
    """Longest time for an answer."""
    tls: bool = False
    authorities_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    any_name: bool = False
    """A certificate of another name will do."""
    any_certificate: bool = False


class RequestFailed(Exception):
    """The API could not be reached, or it has refused a request."""


class RequestRefused(RequestFailed):
    """The API has refused a request: status and its words, path, body of the answer."""

    def __init__(self, status: int, words: str, path: str, body: str) -> None:
        super().__init__(_refusal(status, words, path, body))
        self.status, self.words, self.path, self.body = status, words, path, body

    @property
    def reason(self) -> str | None:
        """The reason that the answer gives, None without one."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return None
        return next((str(found[key]) for key in ("reason", "error") if found.get(key)), None)


class Api:
    """The management API at an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        login = f"{endpoint.username}:{endpoint.password}".encode("utf-8", "surrogateescape")
        self._headers = {"Authorization": f"Basic {b64encode(login).decode()}"}

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> str:
        """The body of the answer to a request. Raises RequestFailed, RequestRefused."""
        return self._request(method, f"{self._endpoint.base}{path}", body, headers or {})

    def _request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> str:
        host, port = self._endpoint.host, self._endpoint.port
        for _ in range(REDIRECTS_MAX):
            status, reason, place, text = self._exchange(host, port, method, path, body, headers)
            if status != http.client.MOVED_PERMANENTLY:
                break
            moved = urlsplit(place)
            host, port = moved.hostname or host, moved.port or port
            path = moved.path + (f"?{moved.query}" if moved.query else "")
        if status in (http.client.OK, http.client.CREATED, http.client.NO_CONTENT):
            return text
        raise RequestRefused(status, reason, path, text)

    def _exchange(
        self, host: str, port: int, method: str, path: str, body: bytes | None, more: Mapping[str, str]
    ) -> tuple[int, str, str, str]:
        """Status, its reason, the place where something has moved to, and the body."""
        connection = self._connection(host, port)
        typed = {"Content-Type": "application/json"} if body is not None else {}
        headers = {**self._headers, **typed, **more}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "surrogateescape")
        except (OSError, http.client.HTTPException) as error:
            raise RequestFailed(f"Could not connect: {error}") from error
        finally:
            connection.close()
        return answer.status, answer.reason, answer.getheader("Location", ""), text

    def _connection(self, host: str, port: int) -> http.client.HTTPConnection:
        seconds = self._endpoint.seconds
        if not self._endpoint.tls:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        endpoint = self._endpoint
        try:
            context = ssl.create_default_context(cafile=endpoint.authorities_file)
            if endpoint.certificate_file:
                context.load_cert_chain(endpoint.certificate_file, endpoint.key_file)
        except OSError as error:
            raise RequestFailed(f"Could not read a certificate or a key: {error}") from error
        if endpoint.any_certificate or endpoint.any_name:
            context.check_hostname = False
        if endpoint.any_certificate:
            context.verify_mode = ssl.CERT_NONE
        return context


def _refusal(status: int, reason: str, path: str, text: str) -> str:
    if status == http.client.UNAUTHORIZED:
        return f"Access refused: {path}"
    if status == http.client.NOT_FOUND:
        return f"Not found: {path}"
    try:
        said = json.loads(text)["reason"]
    except (ValueError, KeyError, TypeError):
        said = text
    if status == http.client.BAD_REQUEST:
        return str(said)
    return f"Received response {status} {reason} for path {path}\n{said}"
