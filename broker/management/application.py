"""The API as one ASGI application: all routes, and the checks that all of them share.

A request is checked in this order: the route exists (404), it has the method (405; OPTIONS is answered), the client
accepts the type of the answer (406), a browser's request does not come from another site (403), the credentials are
right (401, 429), the user has the tag and may see the virtual host (401; as RabbitMQ 4 404). Then the handler of the
route is called. The order decides what is answered without credentials: the same as by RabbitMQ.
"""

from __future__ import annotations

import logging
import re
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
from broker.management.responses import (
    VARY_BEFORE,
    Problem,
    bad_request,
    empty,
    name_headers,
    not_found,
    problem_response,
)
from broker.management.routes.route_table import resources_of
from broker.management.same_site import assert_same_site
from broker.management.web_page import WebPage
from broker.session.direct_session import Refused
from broker.wire.constants import ReplyCode

log = logging.getLogger("leveret.http")

CHANGES = frozenset({"PUT", "POST", "DELETE", "PATCH"})
UNKNOWN_ALLOW = "HEAD, GET, OPTIONS"
QUALITY = re.compile(r"\s*;\s*q=")
"""Text between a media range of the header Accept and its weight. Other parameters are part of the range."""


def application(api: ManagementApi) -> ASGIApp:
    """The API and the web page."""
    resources = resources_of(api.series)
    routes: list[Route | Mount] = [Route(each.pattern, ResourceEndpoint(api, each)) for each in resources]
    unknown = UnknownRoute(as_4=api.broker.personality.named_headers)
    routes.append(Mount("/", WebPage(unknown)))
    router = Router(routes, redirect_slashes=False, default=unknown)
    app: ASGIApp = with_prefix(api.settings.path_prefix, router, unknown)
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
        vary = VARY_BEFORE
        try:
            request = Request(scope, receive)
            operation = self._operation(request)
            if operation is None:
                response = empty(200, {"allow": self._resource.allow})
            else:
                account = self._admitted(request, operation.tag)
                vary = self._resource.vary
                response = await self._answer(ApiCall(self._api, request, account), operation)
        except Problem as problem:
            await trio.sleep(problem.delay)
            vary = VARY_BEFORE if problem.early else vary
            response = problem_response(problem)
        if self._api.broker.personality.named_headers:
            name_headers(response, self._resource.allow, vary, kept=not self._resource.is_open)
        await response(scope, receive, send)

    async def _answer(self, call: ApiCall, operation: Operation) -> Response:
        request = call.request
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
        """The operation that the method asks for; None for OPTIONS. Raises Problem 403, 405 or 406."""
        method = request.method
        if method == "OPTIONS":
            return None
        operation = self._resource.operations.get("GET" if method == "HEAD" else method)
        if operation is None or not self._resource.has(method):
            raise Problem(405, headers={"allow": self._resource.allow})
        if not takes(request, self._resource.ranges):
            raise Problem(406)
        if method in CHANGES:
            assert_same_site(request.headers, self._api.settings.cors_origins)
        return operation

    def _admitted(self, request: Request, tag: Tag | None) -> Account:
        """Return the user, if it may make the request. Raises Problem 400, 401 or 429."""
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
        """Raise Problem 401 for a virtual host that the user may not use; an unknown one is left to the handler."""
        vhost = names_of(request).get("vhost") if self._resource.in_vhost else None
        if vhost not in self._api.broker.vhosts:
            return
        reads, hidden = request.method in ("GET", "HEAD"), self._api.broker.personality.hidden_vhosts
        if hidden and self._resource.monitored and reads and account.monitors:
            return
        changes = not (reads or hidden or self._resource.setting)
        if not (account.enters(vhost) if changes else account.sees(vhost)):
            raise access.hidden() if hidden else access.denied(account.name, tag.refusal_in_vhost)


def authorization_of(request: Request, *, in_query: bool = False) -> str:
    """The credentials of a request. Raises Problem 400 for more than one header Authorization."""
    linked = request.query_params.get("auth") if in_query else None
    if linked is not None:
        return f"Basic {linked.replace(' ', '+')}"
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise Problem(400)
    return given[0] if given else ""


def takes(request: Request, ranges: Set[str]) -> bool:
    """Return True if the header Accept has one of these media ranges."""
    given = [QUALITY.split(part, maxsplit=1)[0].strip() for part in request.headers.get("accept", "*/*").split(",")]
    return not ranges.isdisjoint(given)


def problem_of(refused: Refused) -> Problem:
    """Convert a refusal over AMQP to an answer of the API."""
    if refused.code == ReplyCode.ACCESS_REFUSED:
        log.warning("HTTP request: access denied: %s", refused)
        return Problem(401, "not_authorised", "Access refused.")
    if refused.code == ReplyCode.NOT_FOUND:
        return Problem(404, "not_found", refused.explanation)
    return bad_request(refused.explanation)


def problem_of_administration(error: AdministrationError) -> Problem:
    """Convert a refusal of the administration to an answer of the API."""
    if error.kind == "not_found":
        return not_found()
    if error.kind == "protected":
        return Problem(412, "precondition_failed", str(error))
    if error.kind == "failed":
        return Problem(500, "internal_error", str(error))
    if isinstance(error, ValidationFailed):
        return bad_request("\n".join(["Validation failed\n", *error.problems, ""]))
    return bad_request(str(error))


class UnknownRoute:
    """Answers 404 without asking for credentials, and OPTIONS on any path, as RabbitMQ does; as 4, changes by 405."""

    def __init__(self, *, as_4: bool) -> None:
        self._as_4 = as_4

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            response = empty(200, {"allow": UNKNOWN_ALLOW})
        elif self._as_4 and scope["method"] in CHANGES:
            response = problem_response(Problem(405))
        else:
            response = problem_response(not_found())
        if self._as_4:
            name_headers(response, UNKNOWN_ALLOW, VARY_BEFORE)
        await response(scope, receive, send)


def with_prefix(prefix: str, app: ASGIApp, unknown: ASGIApp) -> ASGIApp:
    """Return the application below a path. A slash at the end is ignored; the path alone is redirected to it."""

    async def below(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if prefix and path == prefix:  # what the page loads is named from where it is
            await empty(301, {"location": f"{prefix}/"})(scope, receive, send)
            return
        if not path.startswith(f"{prefix}/"):
            await unknown(scope, receive, send)
            return
        path = path.removeprefix(prefix)
        if path.startswith("/api/") and path != "/api/":
            path = path.removesuffix("/")
        await app({**scope, "path": path}, receive, send)

    return below
