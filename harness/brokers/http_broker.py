"""A broker that serves its event log by HTTP, and what is said to it: by the standard library, or byte by byte."""

from __future__ import annotations

import http.client
import socket
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.config import Config
from broker.entities.scheduling.future import Future
from broker.management.application import application
from broker.management.management_api import ManagementApi
from broker.management.segment_files import SegmentFiles
from broker.management.statistics.history import StatisticsHistory
from broker.server.http.asgi_exchange import Application
from broker.server.http.http_services import management_settings
from broker.session.registry import Registry
from harness.brokers.broker_process import BrokerProcess
from harness.clients.wire_client import Address
from harness.waiting import eventually
from storage.definitions.definition_rows import Change, Definitions
from storage.events.event_log_writer import EventLog, EventLogSettings, Part

GUEST = "guest:guest"
SECONDS = 60.0
"""Longest wait for an answer: a file of 40,000 queues takes ten on a busy machine."""
WITHOUT_METRICS = ("--prometheus-listen", "off")
"""For a broker whose configuration file says where the API is."""
BOOT = 1
"""The kind of record that stands for one event and holds a name."""


class Reply(NamedTuple):
    """An answer; names of headers are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


def write_segments(
    directory: Path, node: str, boot: int, *sizes: int, filling: bytes = b"", previous: tuple[int, int] = (0, 0)
) -> list[Path]:
    """A boot's log: a segment for each number, with that number of events; where they lie, oldest first.

    `filling` makes events larger; `previous` are the boot before and its last event, as the events tell.
    """
    name = b64encode(filling)
    log, _ = EventLog.open(directory, node, boot, EventLogSettings(1, 3600.0, 0))
    first = 1
    for size in sizes:
        log.append(
            Part([(BOOT, 1_000_000 * number, name, *previous, 0) for number in range(first, first + size)], first, size)
        )
        first += size
    log.close()
    return sorted(directory.glob(f"{node}-{boot:08}-*.events"))


def web_broker(
    directory: Path, settings: str = "", *, http: str = "", events: str = "", tls: Path | None = None
) -> BrokerProcess:
    """A broker that serves the segments in `directory/events`, with further lines of two sections, and further ones."""
    listen = 'tls_listen = ["127.0.0.1:0"]\n' if tls is not None else ""
    sections = [
        f'[management]\nlisten = ["127.0.0.1:0"]\n{listen}',
        f"[http]\n{http}",
        f"[events]\ndirectory = '{directory / 'events'}'\n{events}",
        settings,
        "" if tls is None else tls.read_text(),
    ]
    config = directory / "web.toml"
    config.write_text("\n".join(sections))
    process = BrokerProcess(directory / "data", "--config", str(config))
    process.http = WITHOUT_METRICS
    return process


class NoDefinitions:
    """The definitions store where nothing is to be changed."""

    def write(self, *changes: Change) -> Future[None]:
        raise AssertionError(f"a change: {changes}")

    async def load(self) -> Definitions:
        raise AssertionError("definitions are read")


class StillProcess:
    """The process where nothing is to be asked of it or changed."""

    node_name = "rabbit@harness"
    memory_total = 0

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the process is asked: {name}")


def event_log_application(registry: Registry, directory: Path) -> Application:
    """The API inside a test, with the segments in a directory; nothing can be changed by it."""
    administration = Administration(
        registry.broker,
        registry,
        NoDefinitions(),
        end_turn=registry.broker.turn.end,
        copy_stores=_no_copies,
        status=dict,
        process=StillProcess(),
    )
    segments = SegmentFiles(directory, 2)
    api = ManagementApi(registry, administration, segments, management_settings(Config()), StatisticsHistory(registry))
    return application(api)


async def _no_copies(directory: Path) -> None:
    raise AssertionError(f"a backup to {directory}")


def web_address(process: BrokerProcess, scheme: str = "http") -> Address:
    """Return a broker's address for HTTP, https or metrics; it comes a moment after the broker is ready."""

    def listening() -> list[str]:
        found: list[str] = process.tell("status")[f"{scheme}_listeners"]
        return found

    host, _, port = eventually(listening, f"{scheme} to be served")[0].rpartition(":")
    return host, int(port)


def basic(user: str = GUEST) -> dict[str, str]:
    """The header that says who asks: `user:password`."""
    return {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}


def ask(
    address: Address,
    path: str,
    *,
    method: str = "GET",
    user: str | None = GUEST,
    security: ssl.SSLContext | None = None,
    body: bytes | None = None,
    **headers: str,
) -> Reply:
    """One request over a connection of its own. Underscores in names of headers are dashes."""
    connection = (
        http.client.HTTPConnection(*address, timeout=SECONDS)
        if security is None
        else http.client.HTTPSConnection("localhost", address[1], timeout=SECONDS, context=security)
    )
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body, {**(basic(user) if user is not None else {}), **sent})
        return reply_of(connection.getresponse())
    finally:
        connection.close()


def reply_of(response: http.client.HTTPResponse) -> Reply:
    """A whole answer."""
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, headers, response.read())


class Caller:
    """A socket to say anything over."""

    def __init__(self, address: Address) -> None:
        self.sock = socket.create_connection(address, SECONDS)
        self._heard = self.sock.makefile("rb")

    def say(self, data: bytes) -> None:
        """Send bytes."""
        self.sock.sendall(data)

    def request(self, path: str, method: str = "GET", *lines: str, user: str = GUEST) -> None:
        """Send a request."""
        self.say(request(path, method, *lines, user=user))

    def head(self) -> tuple[int, dict[str, str]]:
        """The status and the headers of the next answer. Raises ConnectionError when there is none."""
        status = self._heard.readline()
        if not status:
            raise ConnectionError("the broker has closed the connection")
        headers = {}
        while line := self._heard.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        return int(status.split()[1]), headers

    def hear(self, *, method: str = "GET") -> Reply:
        """The next answer. Raises ConnectionError when there is none."""
        status, headers = self.head()
        size = 0 if method == "HEAD" else int(headers.get("content-length", 0))
        return Reply(status, headers, self.read(size))

    def read(self, size: int) -> bytes:
        """Read `size` bytes."""
        return self._heard.read(size)

    def ended(self) -> bool:
        """Wait for the broker to close the connection, and say whether it had nothing more to say."""
        try:
            return self._heard.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Go away without a word."""
        self._heard.close()
        self.sock.close()


def request(path: str, method: str = "GET", *lines: str, user: str = GUEST) -> bytes:
    """A request as bytes."""
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", *(": ".join(item) for item in basic(user).items()), *lines]
    return "\r\n".join([*head, "", ""]).encode()
