"""The API as one ASGI application: the tables of routes put together, and what holds for all of them.

A request passes, in this order: the route is found (404), the method is one of its own (405, and OPTIONS is answered),
the answer's form is wanted (406), a browser's request comes from no other site (403), the credentials are right (401,
429), the user has the tag and sees the virtual host (401). Then the route's handler has it. So what RabbitMQ answers
without credentials is answered without them here too, and nothing else is.
"""

from __future__ import annotations

import logging
from collections.abc import Set

import trio
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from broker.admin.protocol import AdministrationError, ValidationFailed
from broker.management import access
from broker.management.access import Account, Tag
from broker.management.api_call import ApiCall, names_of
from broker.management.management_api import ManagementApi
from broker.management.request_client import client_of
from broker.management.resources import Operation, Resource
from broker.management.responses import Problem, bad_request, empty, not_found, problem_response
from broker.management.routes.route_table import RESOURCES
from broker.management.same_site import assert_same_site
from broker.management.web_page import WebPage
from broker.session.direct_session import Refused
from broker.wire.constants import ReplyCode

log = logging.getLogger("leveret.http")

CHANGES = frozenset({"PUT", "POST", "DELETE", "PATCH"})


def application(api: ManagementApi) -> ASGIApp:
    """The API and the web page."""
    routes: list[Route | Mount] = [Route(each.pattern, ResourceEndpoint(api, each)) for each in RESOURCES]
    routes.append(Mount("/", WebPage(unknown_route)))
    app: ASGIApp = with_prefix(api.settings.path_prefix, Router(routes, redirect_slashes=False, default=unknown_route))
    if api.settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=api.settings.cors_origins,
            allow_credentials="*" not in api.settings.cors_origins,
            allow_methods=["GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS"],
            allow_headers=["*"],
            max_age=api.settings.cors_max_age_seconds,
        )
    return app


class ResourceEndpoint:
    """A resource as an ASGI application."""

    def __init__(self, api: ManagementApi, resource: Resource) -> None:
        self._api = api
        self._resource = resource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            response = await self._answer(Request(scope, receive))
        except Problem as problem:
            await trio.sleep(problem.delay)
            response = problem_response(problem)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        operation = self._operation(request)
        if operation is None:
            return empty(200, {"allow": self._resource.allow})
        account = self._admitted(request, operation.tag)
        call = ApiCall(self._api, request, account)
        try:
            if request.method in CHANGES or self._resource.waits:
                return await operation.handler(call)
            async with call.client.working():
                return await operation.handler(call)
        except Refused as refused:
            raise problem_of(refused) from None
        except AdministrationError as error:
            raise problem_of_administration(error) from None

    def _operation(self, request: Request) -> Operation | None:
        """What is asked for; None for OPTIONS. Raises Problem."""
        method = request.method
        if method == "OPTIONS":
            return None
        operation = self._resource.operations.get("GET" if method == "HEAD" else method)
        if operation is None:
            raise Problem(405, headers={"allow": self._resource.allow})
        if not takes(request, self._resource.ranges):
            raise Problem(406)
        if method in CHANGES:
            assert_same_site(request.headers, self._api.settings.cors_origins)
        return operation

    def _admitted(self, request: Request, tag: Tag | None) -> Account:
        """The user whose request it is, who may make it. Raises Problem 400, 401 or 429."""
        if tag is None:
            return access.ANYBODY
        client = client_of(request.scope)
        authorization = authorization_of(request, in_query=self._resource.query_credentials)
        account = access.account(self._api.registry, client.peer, authorization)
        client.admit()
        account.require(tag)
        self._assert_enters(request, account, tag)
        return account

    def _assert_enters(self, request: Request, account: Account, tag: Tag) -> None:
        """A virtual host that does not exist is the handler's to refuse."""
        vhost = names_of(request).get("vhost") if self._resource.in_vhost else None
        if vhost in self._api.broker.vhosts:
            changes = request.method not in ("GET", "HEAD") and not self._resource.setting
            if not (account.enters(vhost) if changes else account.sees(vhost)):
                raise access.denied(account.name, tag.refusal_in_vhost)


def authorization_of(request: Request, *, in_query: bool = False) -> str:
    """The credentials of a request; two of them are none that can be read. Raises Problem 400."""
    linked = request.query_params.get("auth") if in_query else None
    if linked is not None:
        return f"Basic {linked.replace(' ', '+')}"
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise Problem(400)
    return given[0] if given else ""


def takes(request: Request, ranges: Set[str]) -> bool:
    """The client takes one of these types of content by its header Accept."""
    given = [part.partition(";q=")[0].strip() for part in request.headers.get("accept", "*/*").split(",")]
    return not ranges.isdisjoint(given)


def problem_of(refused: Refused) -> Problem:
    """What was refused over AMQP, in the API's terms."""
    if refused.code == ReplyCode.ACCESS_REFUSED:
        log.warning("HTTP request: access denied: %s", refused)
        return Problem(401, "not_authorised", "Access refused.")
    if refused.code == ReplyCode.NOT_FOUND:
        return Problem(404, "not_found", refused.explanation)
    return bad_request(refused.explanation)


def problem_of_administration(error: AdministrationError) -> Problem:
    """What the administration refused, in the API's terms."""
    if error.kind == "not_found":
        return not_found()
    if error.kind == "failed":
        return Problem(500, "internal_error", str(error))
    if isinstance(error, ValidationFailed):
        return bad_request("\n".join(["Validation failed\n", *error.problems, ""]))
    return bad_request(str(error))


async def unknown_route(scope: Scope, receive: Receive, send: Send) -> None:
    """404 for anybody; OPTIONS is answered wherever it is sent, as by RabbitMQ."""
    if scope["method"] == "OPTIONS":
        response = empty(200, {"allow": "HEAD, GET, OPTIONS"})
    else:
        response = problem_response(not_found())
    await response(scope, receive, send)


def with_prefix(prefix: str, app: ASGIApp) -> ASGIApp:
    """An application below a path; a slash at the end of a route is passed over, and put behind the path alone."""

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if prefix and path == prefix:  # what the page loads is named from where it is
            await empty(301, {"location": f"{prefix}/"})(scope, receive, send)
            return
        if not path.startswith(f"{prefix}/"):
            await unknown_route(scope, receive, send)
            return
        path = path.removeprefix(prefix)
        if path.startswith("/api/") and path != "/api/":
            path = path.removesuffix("/")
        await app({**scope, "path": path}, receive, send)

    return below
