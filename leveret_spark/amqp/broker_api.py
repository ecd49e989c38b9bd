"""Questions to a broker's management API, which knows what AMQP 0-9-1 does not list: queues and bindings."""

from __future__ import annotations

import json
import ssl
import time
from base64 import b64encode
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from leveret_spark.amqp.client_login import Login
from leveret_spark.option_errors import HttpError, OptionError
from leveret_spark.options import Broker, Given, Tls

PAUSE_SECONDS = 0.5
REASON_BYTES_MAX = 4096
PASSING = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class ManagementApi:
    """The management API at a URL, for one virtual host."""

    url: str
    vhost: str
    login: Login
    tls: Tls | None
    timeout_seconds: int
    reconnect_seconds: int

    def __str__(self) -> str:
        return self.url

    def get(self, path: str) -> Any:
        """Return what the API says, repeated while the broker is away. Raises HttpError, OptionError."""
        return self._repeated(path, None)

    def put(self, path: str, body: object) -> None:
        """Put a value, which is repeated while the broker is away. Raises HttpError, OptionError."""
        self._repeated(path, json.dumps(body).encode())

    def _repeated(self, path: str, put: bytes | None) -> Any:
        hope_ends = time.monotonic() + self.reconnect_seconds
        while True:
            try:
                return self._asked(path, put)
            except (OSError, ValueError) as error:
                final = isinstance(error, HTTPError) and error.code not in PASSING
                if final or time.monotonic() >= hope_ends:
                    status = error.code if isinstance(error, HTTPError) else None
                    raise HttpError(f"management API {self.url}{path}: {_explained(error)}", status) from None
            time.sleep(PAUSE_SECONDS)

    def _asked(self, path: str, put: bytes | None) -> Any:
        login = b64encode(f"{self.login.user}:{self.login.password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", **({} if put is None else {"Content-Type": "application/json"})}
        request = Request(self.url + path, put, headers, method="GET" if put is None else "PUT")
        with urlopen(request, timeout=self.timeout_seconds, context=self._context()) as response:
            return json.load(response) if put is None else None

    def _context(self) -> ssl.SSLContext | None:
        if self.tls is None:
            return None
        try:
            return self.tls.context()
        except OSError as error:
            raise OptionError(f"the files of options tlsCaFile, tlsCertFile, tlsKeyFile: {error}") from None


def management_of(given: Given, broker: Broker) -> ManagementApi:
    """The API of a broker: `managementUrl`, or the usual port of its host. Raises OptionError."""
    host = f"[{broker.host}]" if ":" in broker.host else broker.host
    usual = f"https://{host}:15671" if broker.tls else f"http://{host}:15672"
    url = (given.text("managementUrl") or usual).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username is not None:
        raise OptionError(
            "option managementUrl is of the form http://host:port, or https://, without user and password"
        )
    tls = (broker.tls or Tls(None, None, None)) if parts.scheme == "https" else None
    return ManagementApi(url, broker.vhost, broker.login, tls, broker.connect_timeout_seconds, broker.reconnect_seconds)


def _reason(error: HTTPError) -> str:
    """The broker's own words for a refusal."""
    try:
        answer = json.loads(error.read(REASON_BYTES_MAX))
    except (OSError, ValueError):
        return ""
    reason = answer.get("reason") if isinstance(answer, dict) else None
    return f" ({reason})" if isinstance(reason, str) and reason != error.reason else ""


def _explained(error: BaseException) -> str:
    if isinstance(error, HTTPError):
        return f"{error.code} {error.reason}{_reason(error)}"
    reason = error.reason if isinstance(error, URLError) else error
    return getattr(reason, "strerror", None) or str(reason)
