"""Routes: a path, the handler of each method, and the tag that its user needs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import NamedTuple

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from broker.entities.arguments.personality import Series
from broker.management.access import Tag
from broker.management.api_call import ApiCall
from broker.management.responses import VARY

Handler = Callable[[ApiCall], Awaitable[Response]]
ORDER = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")
"""The order of methods in the header Allow."""
JSON_RANGES = frozenset({"*/*", "application/*", "application/json"})
TEXT_RANGES = frozenset({"*/*", "text/*", "text/plain"})
EXCHANGE = re.compile(r"\{(exchange|source)\}(?=/)")
"""The name of an exchange that is not the last part of a path."""


class NameOrNothing(StringConvertor):
    """A part of a path that may be empty."""

    regex = "[^/]*"


register_url_convertor("name_or_nothing", NameOrNothing())


class Operation(NamedTuple):
    """The handler of a method. Without a tag no credentials are needed."""

    tag: Tag | None
    handler: Handler


class Resource(NamedTuple):
    """A path with names in braces, and its operations by method.

    `in_vhost`: the path has a virtual host that the user has to see, and for anything but reading to have permissions
    in. `setting`: an administrator needs no permissions there. `query_credentials`: a link may have the credentials in
    its query, as `?auth=`. `ranges`: the media ranges of the header Accept that answers match. `waits`: the handler
    waits for the disk or an alarm, and holds no work slot meanwhile. `since`, `until`: the first series of RabbitMQ
    that has the route, and the first one that no longer has it.

    In RabbitMQ 4 alone: `monitored`: monitors need no permissions in the virtual host to read. `vary`: the header
    Vary; an answer with one media type, or none, does not vary by Accept. `headless`: there is no method HEAD.
    """

    path: str
    operations: Mapping[str, Operation]
    in_vhost: bool
    setting: bool
    query_credentials: bool
    ranges: Set[str]
    waits: bool
    since: Series
    until: Series
    monitored: bool
    vary: str
    headless: bool

    @property
    def pattern(self) -> str:
        """The path for the router. An empty name, `/e//q/`, is the default exchange, as in RabbitMQ."""
        return EXCHANGE.sub(r"{\1:name_or_nothing}", self.path)

    def has(self, method: str) -> bool:
        """Return True if there is an operation for the method."""
        return not self.headless and "GET" in self.operations if method == "HEAD" else method in self.operations

    @property
    def is_open(self) -> bool:
        """True if anybody may read it, without credentials."""
        return "GET" in self.operations and self.operations["GET"].tag is None

    @property
    def allow(self) -> str:
        """The header Allow."""
        methods = {*self.operations, "OPTIONS", *(["HEAD"] if self.has("HEAD") else [])}
        return ", ".join(method for method in ORDER if method in methods)


def resource(
    path: str,
    *,
    in_vhost: bool = False,
    setting: bool = False,
    query_credentials: bool = False,
    ranges: Set[str] = JSON_RANGES,
    waits: bool = False,
    since: Series = (3, 10),
    until: Series = (99, 0),
    monitored: bool = False,
    vary: str = VARY[1],
    headless: bool = False,
    **operations: tuple[Tag | None, Handler],
) -> Resource:
    """A row of a table of routes: `resource("/api/whoami", GET=(Tag.ANY, whoami))`."""
    by_method = {method: Operation(*operation) for method, operation in operations.items()}
    return Resource(
        path,
        by_method,
        in_vhost,
        setting,
        query_credentials,
        ranges,
        waits,
        since,
        until,
        monitored,
        vary,
        headless,
    )
