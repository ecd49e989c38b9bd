"""A shovel as it is set, read from the value of its parameter. That has been checked before
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
    """What a shovel is called; a static one is in no virtual host."""

    vhost: str | None
    name: str

    @property
    def kind(self) -> str:
        """`dynamic` or `static`."""
        return "static" if self.vhost is None else "dynamic"

    def __str__(self) -> str:
        return f"'{self.name}'" if self.vhost is None else f"'{self.name}' in virtual host '{self.vhost}'"


class ShovelSource(NamedTuple):
    """Where messages come from: a queue, or an exchange from which they come by a queue of the shovel's own."""

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
        """As status and headers name it."""
        if self.queue:
            return {"src-queue": self.queue}
        return {"src-exchange": self.exchange, "src-exchange-key": self.key}


class ShovelDestination(NamedTuple):
    """Where messages go: a queue, an exchange, or, where both are None, the exchange and the key that they came by."""

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
        """As status and headers name it."""
        named = {"dest-exchange": self.exchange, "dest-exchange-key": self.key, "dest-queue": self.queue}
        return {key: value for key, value in named.items() if value is not None}


class Shovel(NamedTuple):
    """All of it. `reconnect_seconds` of 0: it is not begun again when it has ended."""

    source: ShovelSource
    destination: ShovelDestination
    mode: AckMode
    reconnect_seconds: float


def read(value: Mapping[str, Any] | list[Any]) -> Shovel:
    """The shovel that a parameter describes; names of before RabbitMQ 3.7 are understood. Raises UriError."""
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
    """How many messages are to be moved where `ready` lie in the queue."""
    if delete_after == NEVER:
        return math.inf
    return ready if delete_after == QUEUE_LENGTH else int(delete_after)


def _endpoints(given: str | list[str]) -> tuple[AmqpEndpoint, ...]:
    return tuple(map(parse, [given] if isinstance(given, str) else given))
