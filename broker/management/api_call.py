"""One request to the API, of a user that has logged in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import unquote

import trio
from starlette.requests import Request

from broker.admin.commands.admin_command import AdminCommand
from broker.admin.commands.command_execution import carry_out
from broker.admin.protocol import AdministrationError
from broker.admin.views.columns import chosen
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.vhost import VHost
from broker.management.access import NOT_IN_VHOST, Account, denied, hidden
from broker.management.json_bodies import BODY_BYTES_MAX, BodyFields, json_object, short
from broker.management.list_query import ListQuery, read_list_query
from broker.management.management_api import ManagementApi
from broker.management.request_client import RequestClient, client_of
from broker.management.responses import Problem, not_found, vhost_not_found
from broker.management.statistics.history_query import HistoryQuery
from broker.management.statistics.windows import read_ages
from broker.session.direct_session import DirectSession
from broker.settled_future import settled
from broker.wire.assembler import Command

BLOCKED_SECONDS = 10.0
"""Longest wait of a publish for an alarm to end."""
LOOK_SECONDS = 0.1
"""Interval at which the alarms are checked while a publish waits."""


class ApiCall:
    """A request, and its user. `names` are the variable parts of its path, decoded."""

    def __init__(self, api: ManagementApi, request: Request, account: Account) -> None:
        self.api = api
        self.broker = api.broker
        self.request = request
        self.account = account
        self.names: Mapping[str, str] = names_of(request)
        self.parameters: Mapping[str, str] = request.query_params
        self.agent = request.headers.get("user-agent", "")
        """The program that asks."""

    @property
    def client(self) -> RequestClient:
        """The client."""
        return client_of(self.request.scope)

    def short_name(self, part: str) -> str:
        """A name in the path. Raises Problem 400 if it is longer than AMQP allows."""
        return short(self.names[part], part)

    async def fields(self) -> BodyFields:
        """Read the body, an object of at most BODY_BYTES_MAX. Raises Problem 400, 408 or 413."""
        return self._fields(await json_object(await self.api.bodies.read(self.request, BODY_BYTES_MAX)))

    async def message_fields(self) -> BodyFields:
        """Read a body with a message, up to the largest size; long texts are bytes. Raises Problem 400, 408 or 413."""
        return self._fields(await json_object(await self.api.bodies.read(self.request), long_as_bytes=True))

    def _fields(self, values: dict[str, Any]) -> BodyFields:
        return BodyFields(values, self.api.registry.settings.frame_max)

    def list_query(self, *, paged: bool = False) -> ListQuery:
        """The query parameters of a list. Raises Problem 400.

        A list that RabbitMQ does not page is paged if the query has `pagination=true`: the web page asks so. Programs
        written for RabbitMQ do not, and get the whole list.
        """
        query = read_list_query(self.parameters, paged=paged or self.flag("pagination"))
        if query.page is None or self.api.series < (4, 0):
            return query
        return query._replace(page=query.page._replace(lenient=True))

    def chosen(self, row: dict[str, Any]) -> Any:
        """The columns of a row that the query asks for; an empty list if none of them exists, as in RabbitMQ."""
        return chosen(row, self.list_query().columns)

    @property
    def history_query(self) -> HistoryQuery:
        """The history of statistics, and the samples of it that the query asks for. Raises Problem 400."""
        return HistoryQuery(self.api.history, read_ages(self.parameters))

    def flag(self, name: str) -> bool:
        """Return True if a query parameter is `true`."""
        return self.parameters.get(name) == "true"

    async def change(self, command: AdminCommand) -> object:
        """Carry out a command of the administration, and return its answer. Raises AdministrationError."""
        return await carry_out(self.api.administration.acting_for(self.account.name), command)

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
        """The virtual hosts of a list, sorted by name.

        These are the one that the path names, or else the header X-Vhost (RabbitMQ's page sends it), or all that the
        user sees. Raises Problem 404, or 401 for one that the user does not see.
        """
        if "vhost" in self.names:
            return [self.vhost]
        if not self.chosen_vhost:
            return [vhost for name, vhost in sorted(self.broker.vhosts.items()) if self.account.sees(name)]
        vhost = self._vhost(self.chosen_vhost)
        if not self.account.sees(vhost.name):
            if self.broker.personality.hidden_vhosts:
                raise hidden()
            raise denied(self.account.name, NOT_IN_VHOST)
        return [vhost]

    @property
    def chosen_vhost(self) -> str:
        """The header X-Vhost; empty for all virtual hosts."""
        return self.request.headers.get("x-vhost", "").encode("latin-1").decode("utf-8", "surrogateescape")

    def assert_vhost(self) -> None:
        """Raise Problem 404 before the body is looked at, as RabbitMQ 4 does, if there is no such virtual host."""
        if self.api.series >= (4, 0) and self.names["vhost"] not in self.broker.vhosts:
            raise vhost_not_found()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[DirectSession]:
        """Open an AMQP channel of the user in the virtual host of the path. Raises Problem 404 if there is none."""
        if self.names["vhost"] not in self.broker.vhosts:
            raise vhost_not_found()
        if self.broker.personality.hidden_vhosts and not self.account.enters(self.names["vhost"]):
            raise Problem(401, "not_authorised", "Access refused.")
        session = DirectSession(self.api.registry, self.client.peer, self.account.name, self.names["vhost"])
        try:
            yield session
        finally:
            session.close()
            self.api.administration.end_turn()

    async def answered(self, answer: Future[Command]) -> Command:
        """Wait for the answer of a session. Raises Refused, or Problem 503 after BLOCKED_SECONDS of an alarm."""
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
    """Raise a problem made from the reason, in place of 404, if something that the body names does not exist."""
    try:
        yield
    except AdministrationError as error:
        if error.kind != "not_found":
            raise
        raise problem(str(error)) from None


def names_of(request: Request) -> dict[str, str]:
    """The variable parts of the path, decoded once. Bytes that are not UTF-8 become single surrogates."""
    return {key: unquote(value, errors="surrogateescape") for key, value in request.path_params.items()}
