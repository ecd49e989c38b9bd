"""Requests of `rabbitmqadmin` to the management API."""

from __future__ import annotations

import http.client
import json
import ssl
from base64 import b64encode
from urllib.parse import urlsplit

from broker.rabbitmq.admin.admin_options import Options

REDIRECTS_MAX = 5


class RequestFailed(Exception):
    """The API could not be reached, or it has refused a request."""


class Api:
    """The management API at the address that the options name."""

    def __init__(self, options: Options) -> None:
        self._options = options
        login = f"{options.username}:{options.password}".encode("utf-8", "surrogateescape")
        self._headers = {"Authorization": f"Basic {b64encode(login).decode()}"}

    def request(self, method: str, path: str, body: bytes | None = None) -> str:
        """The body of the answer to a request below /api. Raises RequestFailed."""
        return self._request(method, f"{self._options.path_prefix}/api{path}", body)

    def _request(self, method: str, path: str, body: bytes | None) -> str:
        host, port = self._options.host, self._options.port
        for _ in range(REDIRECTS_MAX):
            status, reason, place, text = self._exchange(host, port, method, path, body)
            if status != http.client.MOVED_PERMANENTLY:
                break
            moved = urlsplit(place)
            host, port = moved.hostname or host, moved.port or port
            path = moved.path + (f"?{moved.query}" if moved.query else "")
        if status in (http.client.OK, http.client.CREATED, http.client.NO_CONTENT):
            return text
        raise RequestFailed(_refusal(status, reason, path, text))

    def _exchange(self, host: str, port: int, method: str, path: str, body: bytes | None) -> tuple[int, str, str, str]:
        """Status, its reason, the place where something has moved to, and the body."""
        connection = self._connection(host, port)
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
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
        seconds = self._options.request_timeout
        if not self._options.ssl:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        options = self._options
        try:
            context = ssl.create_default_context(cafile=options.ssl_ca_cert_file)
            if options.ssl_cert_file:
                context.load_cert_chain(options.ssl_cert_file, options.ssl_key_file)
        except OSError as error:
            raise RequestFailed(f"Could not read a certificate or a key: {error}") from error
        if options.ssl_insecure or options.ssl_disable_hostname_verification:
            context.check_hostname = False
        if options.ssl_insecure:
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
