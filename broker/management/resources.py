"""Routes: a path, what each method does there, and the tag that its user needs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import NamedTuple

from starlette.convertors import StringConvertor, register_url_convertor
from starlette.responses import Response

from broker.management.access import Tag
from broker.management.api_call import ApiCall

Handler = Callable[[ApiCall], Awaitable[Response]]
ORDER = ("HEAD", "GET", "PUT", "DELETE", "POST", "OPTIONS")
"""In which methods are listed in the header Allow."""
JSON_RANGES = frozenset({"*/*", "application/*", "application/json"})
TEXT_RANGES = frozenset({"*/*", "text/*", "text/plain"})
EXCHANGE = re.compile(r"\{(exchange|source)\}(?=/)")
"""The name of an exchange in a path that goes on behind it."""


class NameOrNothing(StringConvertor):
    """A part of a path that may be empty."""

    regex = "[^/]*"


register_url_convertor("name_or_nothing", NameOrNothing())


class Operation(NamedTuple):
    """What a method does. With no tag anybody may ask, without credentials."""

    tag: Tag | None
    handler: Handler


class Resource(NamedTuple):
    """A path with names in braces, and its operations by method.

    With `in_vhost` the path has a virtual host that the user has to see, or to have a permission in for anything but
    reading. What an administrator changes as a `setting` needs no permission there. With `query_credentials` a link
    may carry the credentials in its query: `?auth=`. `ranges` are those of the header Accept that answers suit. What
    `waits`, for the disk or an alarm, holds no place for work meanwhile.
    """

    path: str
    operations: Mapping[str, Operation]
    in_vhost: bool
    setting: bool
    query_credentials: bool
    ranges: Set[str]
    waits: bool

    @property
    def pattern(self) -> str:
        """The path for the router. An exchange without a name, `/e//q/`, is the default exchange, as in RabbitMQ."""
        return EXCHANGE.sub(r"{\1:name_or_nothing}", self.path)

    @property
    def allow(self) -> str:
        """The methods that there are, as the header Allow lists them."""
        methods = {*self.operations, "OPTIONS", *(["HEAD"] if "GET" in self.operations else [])}
        return ", ".join(method for method in ORDER if method in methods)


def resource(
    path: str,
    *,
    in_vhost: bool = False,
    setting: bool = False,
    query_credentials: bool = False,
    ranges: Set[str] = JSON_RANGES,
    waits: bool = False,
    **operations: tuple[Tag | None, Handler],
) -> Resource:
    """A row of a table of routes: `resource("/api/whoami", GET=(Tag.ANY, whoami))`."""
    by_method = {method: Operation(*operation) for method, operation in operations.items()}
    return Resource(path, by_method, in_vhost, setting, query_credentials, ranges, waits)
