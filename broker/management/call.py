"""What the API works on, and one request to it whose user has logged in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import unquote

import trio
from starlette.requests import Request

from broker.admin.administration import Administration
from broker.admin.command_table import carry_out
from broker.admin.protocol import AdministrationError
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.vhost import VHost
from broker.management.access import NOT_IN_VHOST, Account, denied
from broker.management.answers import Problem, not_found
from broker.management.bodies import BODY_BYTES_MAX, Bodies, Fields, json_object, short
from broker.management.columns import chosen
from broker.management.insight.trace_subscriptions import TraceSubscriptions
from broker.management.list_query import ListQuery, read_list_query
from broker.management.segment_files import SegmentFiles
from broker.management.statistics.history import History
from broker.management.statistics.past import Past
from broker.management.statistics.windows import read_ages
from broker.management.visitor import Visitor, visitor_in
from broker.session.direct_session import DirectSession, Refused
from broker.session.registry import Registry
from broker.settled_future import settled
from broker.wire.assembler import Command

BLOCKED_SECONDS = 10.0
"""How long a publish may wait for an alarm to end."""
LOOK_SECONDS = 0.1
"""Between two looks at the alarms while a publish waits."""


class ApiSettings(NamedTuple):
    """What the API takes from the configuration, and says of the broker.

    `version` is the RabbitMQ version whose behaviour is claimed; `product_version` is the broker's own.
    """

    node: str
    version: str
    product_version: str
    rates_mode: str
    path_prefix: str
    body_bytes_max: int
    cors_origins: tuple[str, ...]
    cors_max_age_seconds: int
    certificate_file: str
    ca_file: str


class Management:
    """What the API works on. `status` is how the process does: see `Administration`."""

    def __init__(
        self,
        registry: Registry,
        administration: Administration,
        segments: SegmentFiles,
        settings: ApiSettings,
        history: History,
    ) -> None:
        self.broker = registry.broker
        self.registry = registry
        self.administration = administration
        self.segments = segments
        self.settings = settings
        self.history = history
        self.bodies = Bodies(settings.body_bytes_max)
        self.listeners = TraceSubscriptions()

    @property
    def cluster_name(self) -> str:
        """What the broker is called: by its operator, or else by its settings."""
        return self.registry.cluster_name

    def look_around(self) -> None:
        """Have alarms as they must be now, before they are shown or heeded: while nothing happens nobody looks."""
        self.administration.process.look_around()

    @property
    def status(self) -> Callable[[], dict[str, Any]]:
        """How the process does."""
        return self.administration.status


class Call:
    """One request, and the user whose it is. `names` are the parts of its path, decoded."""

    def __init__(self, api: Management, request: Request, account: Account) -> None:
        self.api = api
        self.broker = api.broker
        self.request = request
        self.account = account
        self.names: Mapping[str, str] = names_of(request)
        self.parameters: Mapping[str, str] = request.query_params

    @property
    def visitor(self) -> Visitor:
        """The client."""
        return visitor_of(self.request)

    def short_name(self, part: str) -> str:
        """A name in the path. Raises Problem 400 if AMQP has no room for it."""
        return short(self.names[part], part)

    async def fields(self) -> Fields:
        """The request's body, an object of at most BODY_BYTES_MAX. Raises Problem 400, 408 or 413."""
        return self._fields(await json_object(await self.api.bodies.read(self.request, BODY_BYTES_MAX)))

    async def message_fields(self) -> Fields:
        """A body with a message in it, as large as any; long texts are bytes. Raises Problem 400, 408 or 413."""
        return self._fields(await json_object(await self.api.bodies.read(self.request), long_as_bytes=True))

    def _fields(self, values: dict[str, Any]) -> Fields:
        return Fields(values, self.api.registry.settings.frame_max)

    def list_query(self, *, paged: bool = False) -> ListQuery:
        """What is asked of a list. Raises Problem 400.

        Those that RabbitMQ does not page are paged where `pagination` is `true`: the web page says so, and no program
        of RabbitMQ's does, which all want the whole list then.
        """
        return read_list_query(self.parameters, paged=paged or self.flag("pagination"))

    def chosen(self, row: dict[str, Any]) -> Any:
        """Of one thing, the columns that are wanted; an empty list where nothing is left, as in RabbitMQ."""
        return chosen(row, self.list_query().columns)

    @property
    def past(self) -> Past:
        """What was counted in the past, and which samples of it are asked for. Raises Problem 400."""
        return Past(self.api.history, read_ages(self.parameters))

    def flag(self, name: str) -> bool:
        """A query parameter is `true`."""
        return self.parameters.get(name) == "true"

    async def change(self, command: str, **arguments: object) -> object:
        """Have a command of the administration carried out; its answer. Raises AdministrationError."""
        return await carry_out(self.api.administration.acting_for(self.account.name), command, arguments)

    @property
    def vhost(self) -> VHost:
        """The virtual host that the path names. Raises Problem 404."""
        return self._vhost(self.names["vhost"])

    def _vhost(self, name: str) -> VHost:
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            raise not_found()
        return vhost

    def vhosts(self) -> list[VHost]:
        """The virtual hosts of a list, by name: the one that the path names, or else the header X-Vhost (RabbitMQ's
        page sends it), or all that the user sees. Raises Problem 404, or 401 for one that the user does not see."""
        if "vhost" in self.names:
            return [self.vhost]
        if not self.chosen_vhost:
            return [vhost for name, vhost in sorted(self.broker.vhosts.items()) if self.account.sees(name)]
        vhost = self._vhost(self.chosen_vhost)
        if not self.account.sees(vhost.name):
            raise denied(self.account.name, NOT_IN_VHOST)
        return [vhost]

    @property
    def chosen_vhost(self) -> str:
        """What the header X-Vhost says; empty for all virtual hosts."""
        return self.request.headers.get("x-vhost", "").encode("latin-1").decode("utf-8", "surrogateescape")

    @asynccontextmanager
    async def session(self) -> AsyncIterator[DirectSession]:
        """An AMQP channel of the user in the virtual host that the path names. Raises Problem 404 if there is none."""
        if self.names["vhost"] not in self.broker.vhosts:
            raise Problem(404, "not_found", "vhost_not_found")
        session = DirectSession(self.api.registry, self.visitor.peer, self.account.name, self.names["vhost"])
        try:
            yield session
        finally:
            session.close()
            self.api.administration.end_turn()

    async def answered(self, answer: Future[Command]) -> Command:
        """The answer of a session. Raises Refused, and Problem 503 where a publish waits for an alarm too long."""
        administration = self.api.administration
        administration.end_turn()
        with trio.move_on_after(BLOCKED_SECONDS):
            while not answer.done and self.broker.alarms.raised:
                with trio.move_on_after(LOOK_SECONDS):
                    await settled(answer)
        if not answer.done and self.broker.alarms.raised:
            raise Problem(503, "blocked", f"publishers are blocked: {self.broker.alarms.reason}")
        return await administration.settled(answer)


@contextmanager
def where_absent(problem: Callable[[str], Problem]) -> Iterator[None]:
    """What does not exist is something else than what the path names: not 404, but this problem of the reason."""
    try:
        yield
    except AdministrationError as error:
        if error.kind != "not_found":
            raise
        raise problem(str(error)) from None


def names_of(request: Request) -> dict[str, str]:
    """The parts of a path that are names, decoded once. Bytes that are not UTF-8 become single surrogates."""
    return {key: unquote(value, errors="surrogateescape") for key, value in request.path_params.items()}


def visitor_of(request: Request) -> Visitor:
    """The client behind a request."""
    return visitor_in(request.scope)


__all__ = [
    "BLOCKED_SECONDS",
    "ApiSettings",
    "Call",
    "Management",
    "Refused",
    "names_of",
    "visitor_of",
    "where_absent",
]
