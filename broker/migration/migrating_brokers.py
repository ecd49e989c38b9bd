"""The two brokers of a migration behind one protocol: the local one, and a remote one.

The local broker is asked over the socket in its data directory, which also opens AMQP connections without a login
(`open_amqp`). The remote one is asked by RabbitMQ's HTTP API, and logged in to.
"""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import SplitResult, quote, unquote, urlsplit

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.commands.connection_admin import OpenAmqp
from broker.admin.commands.definitions_admin import ExportDefinitions, ImportDefinitions
from broker.admin.commands.queue_admin import ListQueues
from broker.admin.protocol import AdministrationError
from broker.admin.socket_conversation import ask, connected
from broker.client.link import Enter, Entered
from broker.client.uris import AmqpEndpoint

ANSWER_SECONDS = 300.0
Definitions = dict[str, Any]
COLUMNS = ("vhost", "name", "type", "messages_ready", "messages_unacknowledged", "exclusive")


class MigratedQueue(NamedTuple):
    """A queue and its message counts."""

    vhost: str
    name: str
    type: str
    ready: int
    unacknowledged: int
    exclusive: bool


class DefinitionsRejected(Exception):
    """Raised if a broker rejects definitions; the message is its reason."""


class MigratingBroker(Protocol):
    """One of the two brokers."""

    name: str
    enter: Enter | None

    def endpoint(self, vhost: str) -> AmqpEndpoint:
        """Return the AMQP endpoint of a virtual host."""

    def definitions(self) -> Definitions:
        """Export all definitions. Raises AdministrationError."""

    def import_definitions(self, definitions: Definitions) -> None:
        """Import definitions. Raises DefinitionsRejected, and AdministrationError without an answer."""

    def queues(self) -> list[MigratedQueue]:
        """List its queues. Raises AdministrationError."""


class LocalBroker:
    """The broker that runs on a data directory."""

    name = "this broker"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.enter: Enter | None = self._enter

    def endpoint(self, vhost: str) -> AmqpEndpoint:
        """Return the broker itself, without a login."""
        return AmqpEndpoint(f"amqp:///{quote(vhost, safe='')}", None, 0, None, None, vhost)

    def _enter(self, endpoint: AmqpEndpoint, properties: Mapping[str, object]) -> Entered:
        with connected(self._directory, ANSWER_SECONDS) as conversation:
            frame_max = conversation.ask(OpenAmqp(vhost=endpoint.vhost, properties=properties))["frame_max"]
            sock: socket.socket = conversation.detach()
        sock.setblocking(False)
        return Entered(sock, frame_max)

    def definitions(self) -> Definitions:
        """Export the definitions as `leveret export definitions` does."""
        exported: Definitions = self._ask(ExportDefinitions())
        return exported

    def import_definitions(self, definitions: Definitions) -> None:
        """Import definitions as `leveret import definitions` does."""
        try:
            self._ask(ImportDefinitions(definitions=definitions))
        except AdministrationError as error:
            if error.kind not in ("invalid", "not_found"):
                raise
            raise DefinitionsRejected(str(error)) from error

    def queues(self) -> list[MigratedQueue]:
        """List queues as `leveret list queues` does."""
        rows = self._ask(ListQueues(columns=list(COLUMNS)))
        return [MigratedQueue(*(row[column] for column in COLUMNS)) for row in rows]

    def _ask(self, command: AdminCommand) -> Any:
        return ask(self._directory, command, ANSWER_SECONDS)


class RemoteBroker:
    """Another broker: a URI for AMQP, and the URL of its management API.

    The API is asked as the user of its URL, or else of the URI.
    """

    enter: Enter | None = None

    def __init__(self, amqp: AmqpEndpoint, management: str) -> None:
        self._amqp = amqp
        self._url = _split(management)
        self.name = f"{amqp.host}:{amqp.port}"
        user, password = amqp.user or "guest", amqp.password or "guest"
        if self._url.username is not None:
            user, password = unquote(self._url.username), unquote(self._url.password or "")
        login = f"{user}:{password}"
        self.headers = {
            "Authorization": f"Basic {b64encode(login.encode()).decode()}",
            "Content-Type": "application/json",
        }

    def endpoint(self, vhost: str) -> AmqpEndpoint:
        """Return the endpoint of the URI, in this virtual host."""
        return self._amqp._replace(vhost=vhost)

    def definitions(self) -> Definitions:
        """Export the definitions with GET /api/definitions."""
        exported: Definitions = self._answered("GET", "definitions")
        return exported

    def import_definitions(self, definitions: Definitions) -> None:
        """Import definitions with POST /api/definitions."""
        self._answered("POST", "definitions", definitions)

    def queues(self) -> list[MigratedQueue]:
        """List queues with GET /api/queues; its counts may be some seconds old."""
        listed = self._answered("GET", f"queues?columns={','.join(COLUMNS)}")
        return [
            MigratedQueue(
                row["vhost"],
                row["name"],
                row.get("type", "classic"),
                row.get("messages_ready", 0),
                row.get("messages_unacknowledged", 0),
                row.get("exclusive", False),
            )
            for row in listed
        ]

    def _answered(self, method: str, path: str, body: object = None) -> Any:
        """Send a request, and return the JSON value of the answer.

        Raises DefinitionsRejected if the sent body is refused, AdministrationError for other errors.
        """
        sent = None if body is None else json.dumps(body).encode()
        shown = f"{self._url.scheme}://{self._url.hostname}:{self._port}"
        connection = _connection(self._url.scheme, self._url.hostname or "", self._port)
        try:
            connection.request(method, f"{self._url.path.rstrip('/')}/api/{path}", sent, self.headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            raise AdministrationError("failed", f"{shown}: cannot be asked: {error}") from error
        finally:
            connection.close()
        if answer.status in (401, 403, 404) or (answer.status >= 400 and body is None):
            reason = f"answers {answer.status} {answer.reason}; the user has to have the tag administrator"
            raise AdministrationError("refused", f"{shown}/api/{path}: {reason}")
        if answer.status >= 400:
            raise DefinitionsRejected(_reason(answer.status, content))
        return json.loads(content) if content else None

    @property
    def _port(self) -> int:
        return self._url.port or (443 if self._url.scheme == "https" else 15672)


def _split(management: str) -> SplitResult:
    """Parse a URL. The error does not quote it: it may contain a password."""
    try:
        url = urlsplit(management)
        usable = url.scheme in ("http", "https") and url.hostname is not None and url.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise AdministrationError("invalid", "the URL of the management API cannot be read: expected http://host:15672")
    return url


def _connection(scheme: str, host: str, port: int) -> HTTPConnection:
    if scheme == "https":
        return HTTPSConnection(host, port, timeout=ANSWER_SECONDS)
    return HTTPConnection(host, port, timeout=ANSWER_SECONDS)


def _reason(status: int, content: bytes) -> str:
    try:
        return str(json.loads(content)["reason"])
    except (ValueError, KeyError, TypeError):
        return f"answered with {status}"
