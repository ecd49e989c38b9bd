"""A shovel's definition, parsed from the value of its parameter, which was checked when it was set
(`broker/admin/settings/shovel_check.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from broker.client.move_messages import AckMode
from broker.client.uris import AmqpEndpoint, parse

PREFETCH = 1000
RECONNECT_SECONDS = 5.0
NEVER, QUEUE_LENGTH = "never", "queue-length"


class ShovelName(NamedTuple):
    """Virtual host and name of a shovel; a static one is in no virtual host."""

    vhost: str | None
    name: str

    @property
    def kind(self) -> str:
        """`dynamic` or `static`."""
        return "static" if self.vhost is None else "dynamic"

    def __str__(self) -> str:
        return f"'{self.name}'" if self.vhost is None else f"'{self.name}' in virtual host '{self.vhost}'"


class ShovelSource(NamedTuple):
    """The source of messages: a queue, or an exchange to which the shovel binds a queue of its own."""

    endpoints: tuple[AmqpEndpoint, ...]
    queue: str
    queue_arguments: Mapping[str, Any]
    exchange: str
    key: str
    consumer_arguments: Mapping[str, Any]
    prefetch: int
    delete_after: str | int

    @property
    def described(self) -> dict[str, str]:
        """The fields by which status and headers name it."""
        if self.queue:
            return {"src-queue": self.queue}
        return {"src-exchange": self.exchange, "src-exchange-key": self.key}


class ShovelDestination(NamedTuple):
    """The destination of messages: a queue, an exchange, or, if both are None, each message's own exchange and key."""

    endpoints: tuple[AmqpEndpoint, ...]
    queue: str | None
    queue_arguments: Mapping[str, Any]
    exchange: str | None
    key: str | None
    properties: Mapping[str, Any]
    forward_headers: bool
    timestamp_header: bool

    @property
    def described(self) -> dict[str, str]:
        """The fields by which status and headers name it."""
        named = {"dest-exchange": self.exchange, "dest-exchange-key": self.key, "dest-queue": self.queue}
        return {key: value for key, value in named.items() if value is not None}


class Shovel(NamedTuple):
    """A shovel's definition. `reconnect_seconds` of 0: it is not restarted after a failure."""

    source: ShovelSource
    destination: ShovelDestination
    mode: AckMode
    reconnect_seconds: float


def read(value: Mapping[str, Any] | list[Any]) -> Shovel:
    """Parse the value of a parameter; keys of RabbitMQ before 3.7 are accepted. Raises UriError."""
    given = dict(value)
    source = ShovelSource(
        _endpoints(given["src-uri"]),
        given.get("src-queue", ""),
        dict(given.get("src-queue-args", {})),
        given.get("src-exchange", ""),
        given.get("src-exchange-key", ""),
        dict(given.get("src-consumer-args", {})),
        int(given.get("src-prefetch-count", given.get("prefetch-count", PREFETCH))),
        given.get("src-delete-after", given.get("delete-after", NEVER)),
    )
    destination = ShovelDestination(
        _endpoints(given["dest-uri"]),
        given.get("dest-queue"),
        dict(given.get("dest-queue-args", {})),
        given.get("dest-exchange"),
        given.get("dest-exchange-key"),
        dict(given.get("dest-publish-properties", given.get("publish-properties", {}))),
        given.get("dest-add-forward-headers", given.get("add-forward-headers", False)),
        given.get("dest-add-timestamp-header", given.get("add-timestamp-header", False)),
    )
    mode = AckMode(given.get("ack-mode", AckMode.ON_CONFIRM))
    return Shovel(source, destination, mode, max(0.0, float(given.get("reconnect-delay", RECONNECT_SECONDS))))


def limit(delete_after: str | int, ready: int) -> float:
    """Return the number of messages to move from a queue with `ready` messages; infinite for `never`."""
    if delete_after == NEVER:
        return math.inf
    return ready if delete_after == QUEUE_LENGTH else int(delete_after)


def _endpoints(given: str | list[str]) -> tuple[AmqpEndpoint, ...]:
    return tuple(map(parse, [given] if isinstance(given, str) else given))
