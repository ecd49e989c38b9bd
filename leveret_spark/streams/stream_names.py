"""The streams that a query reads: named, matched by a pattern, or the partitions of a super stream.

A super stream is an exchange; its partitions are the streams bound to it, in the order of the argument
`x-stream-partition-order` of their bindings. AMQP 0-9-1 lists neither bindings nor queues, so both are asked of the
management API, by every planner again after a while: partitions that are added are found during a query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from leveret_spark.amqp.broker_api import ManagementApi, management_of
from leveret_spark.option_errors import HttpError, OptionError
from leveret_spark.options import Broker, Given, queues_of

ORDER = "x-stream-partition-order"
WAYS = ("queue", "queues", "subscribePattern", "assign", "superStream")


class SuperStreamPartition(NamedTuple):
    """A stream of a super stream, and the key that leads to it."""

    order: int
    key: str
    stream: str


@dataclass(frozen=True)
class StreamNames:
    """The streams to read. `fixed`: names that need no broker; without them a pattern, or super streams."""

    fixed: tuple[str, ...]
    pattern: str | None
    assigned: Mapping[str, tuple[int, ...] | None]
    """Partitions of super streams by their orders; None: all."""
    api: ManagementApi | None
    said: str

    def now(self) -> tuple[str, ...]:
        """Return the names of the streams. Raises HttpError, OptionError."""
        if self.fixed:
            return self.fixed
        assert self.api is not None, "names that are not fixed are asked for"
        if self.pattern is not None:
            return _matching(self.api, self.pattern)
        return tuple(
            name for exchange, orders in self.assigned.items() for name in _partitions(self.api, exchange, orders)
        )


def names_of(given: Given, broker: Broker) -> StreamNames:
    """Read the options that name streams. Raises OptionError."""
    said = [name for name in WAYS if given.has(name)]
    if len(said) > 1:
        raise OptionError(f"options {given.said(said[0])} and {given.said(said[1])} exclude each other")
    if said and said[0] in ("subscribePattern", "assign", "superStream"):
        return _named(given, broker, said[0], given.text(said[0]) or "")
    return StreamNames(queues_of(given), None, {}, None, said[0] if said else "queue")


def _named(given: Given, broker: Broker, way: str, text: str) -> StreamNames:
    api = management_of(given, broker)
    if way == "superStream":
        if not text:
            raise OptionError("option superStream is the name of a super stream")
        return StreamNames((), None, {text: None}, api, way)
    if way == "assign":
        return StreamNames((), None, _assigned(text), api, way)
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"option subscribePattern is no regular expression: {error}") from None
    return StreamNames((), text, {}, api, way)


def _assigned(text: str) -> dict[str, tuple[int, ...] | None]:
    """Read Kafka's JSON, such as {"invoices": [0, 2]}."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    fits = isinstance(found, dict) and all(
        isinstance(orders, list) and orders and all(type(order) is int and order >= 0 for order in orders)
        for orders in found.values()
    )
    if not found or not fits:
        raise OptionError('option assign is JSON such as {"invoices": [0, 2]}: super streams and their partitions')
    return {name: tuple(orders) for name, orders in found.items()}


def partitions_of(api: ManagementApi, exchange: str) -> list[SuperStreamPartition]:
    """The partitions of a super stream, in their order. Raises HttpError, OptionError."""
    vhost, name = quote(api.vhost, safe=""), quote(exchange, safe="")
    bindings: list[dict[str, Any]] = api.get(f"/api/exchanges/{vhost}/{name}/bindings/source")
    with _expected(api, "bindings"):
        found = [
            SuperStreamPartition(_order(exchange, binding), binding["routing_key"], binding["destination"])
            for binding in bindings
            if binding["destination_type"] == "queue"
        ]
    if not found:
        raise OptionError(f"super stream {exchange!r} of {api}: no stream is bound to this exchange")
    return sorted(found)


def _order(exchange: str, binding: Mapping[str, Any]) -> int:
    order = binding["arguments"].get(ORDER, 0)
    try:
        return int(order)
    except (TypeError, ValueError):
        raise OptionError(
            f"super stream {exchange!r}: the binding of {binding['destination']!r} has {ORDER} = {order!r}, which is"
            " to be a whole number: bind it again"
        ) from None


@contextmanager
def _expected(api: ManagementApi, what: str) -> Iterator[None]:
    """Raise HttpError for an answer that is none of RabbitMQ's API."""
    try:
        yield
    except (AttributeError, KeyError, TypeError):
        raise HttpError(
            f"management API {api}: its answer is no list of {what}; managementUrl is that of RabbitMQ's management API"
        ) from None


def _partitions(api: ManagementApi, exchange: str, orders: tuple[int, ...] | None) -> list[str]:
    """The streams of a super stream, or of some of its partitions; a stream is its own partition 0."""
    there = partitions_of(api, exchange)
    if orders is None:
        return list(dict.fromkeys(each.stream for each in there))
    by_order = {each.order: each.stream for each in there}
    if missing := [order for order in orders if order not in by_order]:
        raise OptionError(f"option assign has partition {missing[0]} of {exchange!r}, which has {sorted(by_order)}")
    return [by_order[order] for order in orders]


def _matching(api: ManagementApi, pattern: str) -> tuple[str, ...]:
    queues: list[dict[str, Any]] = api.get(f"/api/queues/{quote(api.vhost, safe='')}?columns=name,type,arguments")
    with _expected(api, "queues"):
        streams = [each["name"] for each in queues if _is_stream(each)]
    return tuple(sorted(name for name in streams if re.fullmatch(pattern, name)))


def _is_stream(queue: Mapping[str, Any]) -> bool:
    return "stream" in (queue.get("type"), queue.get("arguments", {}).get("x-queue-type"))
