"""The validation of shovels, in the words of RabbitMQ's plugin (`rabbit_shovel_parameters`, 3.10.8).

Values are shown without credentials: at a start the problems go into the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from broker.admin.json_terms import binary_pairs, binary_term
from broker.client import uris
from broker.credentials import without_credentials
from broker.entities.arguments.personality import Series

NAME_BYTES_MAX = 255
Check = Callable[[str, Any], list[str]]
MayEnter = Callable[[str], str]
"""Returns why a shovel may not connect to a virtual host of this broker; empty if it may."""
QUEUE_ARGUMENTS = (
    "x-expires",
    "x-message-ttl",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-dead-letter-strategy",
    "x-max-length",
    "x-max-length-bytes",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-max-priority",
    "x-overflow",
    "x-queue-mode",
    "x-queue-version",
    "x-single-active-consumer",
    "x-queue-type",
    "x-quorum-initial-group-size",
    "x-quorum-target-group-size",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-stream-filter-size-bytes",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-delivery-limit",
    "x-consumer-timeout",
)
CONSUMER_ARGUMENTS = ("x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "x-stream-filter")
ARGUMENTS = ("src-queue-args", "src-consumer-args", "dest-queue-args")
FOREIGN_PROTOCOLS = ("amqp10", "local")
"""RabbitMQ moves messages by them; a shovel from its definitions is kept here, and does not run."""
TEXT_PROPERTIES = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
NUMBER_PROPERTIES = ("delivery_mode", "priority", "timestamp")


def static_problem(shovels: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the first problem of the shovels of the settings, with its place; empty if there is none."""
    found = (
        f"shovels.{name}: {wrong}" for name, value in shovels.items() for wrong in problems(name, value, _anywhere)
    )
    return next(found, "")


def _anywhere(vhost: str) -> str:
    return ""


def foreign_protocol(value: Any) -> str:
    """Return the protocol of a definition that only RabbitMQ's shovels speak; empty if there is none."""
    given = dict(value) if isinstance(value, Mapping) else {}
    named = (given.get(key) for key in ("src-protocol", "dest-protocol"))
    return next((each for each in named if isinstance(each, str) and each in FOREIGN_PROTOCOLS), "")


def problems(name: str, value: Any, may_enter: MayEnter, series: Series = (3, 10)) -> list[str]:
    """Return all problems of a definition, in RabbitMQ's order. RabbitMQ 4 takes any arguments of queues."""
    if not isinstance(value, Mapping) and value != []:
        return [f"{name} not a list {_shown(value)}"]
    given = dict(value)
    found = [problem for key in ("src-protocol", "dest-protocol") for problem in _protocol(key, given.get(key))]
    if found:
        return found
    free = dict.fromkeys(ARGUMENTS, _table_of_anything) if series >= (4, 0) else {}
    return [*_contradictions(given), *_in_turn(name, given, _checks(may_enter) | free)]


def _protocol(key: str, value: Any) -> list[str]:
    if value == "amqp10":
        return [f"{key}: amqp10 is not supported here, only amqp091"]
    return [] if value in (None, "amqp091") else _one_of("amqp10", "amqp091")(key, value)


def _contradictions(given: Mapping[str, Any]) -> Iterator[str]:
    sources = {"src-exchange", "src-queue"} & given.keys()
    if not sources:
        yield "Must specify 'src-exchange' or 'src-queue'"
    if len(sources) == 2:
        yield "Cannot specify 'src-exchange' and 'src-queue'"
    delete_after = given.get("src-delete-after", given.get("delete-after"))
    if isinstance(delete_after, int) and given.get("ack-mode") == "no-ack":
        yield "Cannot specify 'no-ack' and numerical 'delete-after'"
    if {"dest-exchange", "dest-queue"} <= given.keys():
        yield "Cannot specify 'dest-exchange' and 'dest-queue'"


def _in_turn(name: str, given: Mapping[str, Any], checks: Mapping[str, Check]) -> list[str]:
    """Return unknown keys first, then the problems of the others, the last key first."""
    unknown = {key: given[key] for key in sorted(given.keys() - checks.keys())}
    found = [f"Unrecognised terms {binary_pairs(without_credentials(unknown))} in {name}"] if unknown else []
    for key in reversed(list(checks)):
        if key in given:
            found += checks[key](key, given[key])
        elif key in ("src-uri", "dest-uri"):
            found.append(f'Key "{key}" not found in {name}')
    return found


def _checks(may_enter: MayEnter) -> dict[str, Check]:
    uri = _uri(may_enter)
    return {
        "reconnect-delay": _number,
        "ack-mode": _one_of("no-ack", "on-publish", "on-confirm"),
        "src-protocol": _anything,
        "dest-protocol": _anything,
        "src-uri": uri,
        "src-exchange": _text,
        "src-exchange-key": _text,
        "src-queue": _text,
        "src-queue-args": _known(QUEUE_ARGUMENTS),
        "src-consumer-args": _known(CONSUMER_ARGUMENTS),
        "prefetch-count": _number,
        "src-prefetch-count": _number,
        "delete-after": _delete_after,
        "src-delete-after": _delete_after,
        "dest-uri": uri,
        "dest-exchange": _text,
        "dest-exchange-key": _text,
        "dest-queue": _queue_name,
        "dest-queue-args": _known(QUEUE_ARGUMENTS),
        "add-forward-headers": _flag,
        "add-timestamp-header": _flag,
        "dest-add-forward-headers": _flag,
        "dest-add-timestamp-header": _flag,
        "publish-properties": _properties,
        "dest-publish-properties": _properties,
    }


def _anything(key: str, value: Any) -> list[str]:
    return []


def _number(key: str, value: Any) -> list[str]:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    return [] if fits else [f"{key} should be a number, actually was {_shown(value)}"]


def _text(key: str, value: Any) -> list[str]:
    return [] if isinstance(value, str) else [f"{key} should be binary, actually was {_shown(value)}"]


def _flag(key: str, value: Any) -> list[str]:
    return [] if isinstance(value, bool) else [f"{key} should be boolean, actually was {_shown(value)}"]


def _queue_name(key: str, value: Any) -> list[str]:
    if not isinstance(value, str):
        return _text(key, value)
    size = len(value.encode("utf-8", "surrogateescape"))
    return [] if size <= NAME_BYTES_MAX else [f"{key} should be less than 255 bytes, actually was {size}"]


def _one_of(*options: str) -> Check:
    def check(key: str, value: Any) -> list[str]:
        if not isinstance(value, str) or value in options:
            return _text(key, value)
        return [f"{key} should be one of {binary_term(list(options))}, actually was {_shown(value)}"]

    return check


def _delete_after(key: str, value: Any) -> list[str]:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if number or value in ("never", "queue-length"):
        return []
    expected = 'a number greater than or equal to 0, "never" or "queue-length"'
    return [f"{key} should be {expected}, actually was {_shown(value)}"]


def _known(names: tuple[str, ...]) -> Check:
    return lambda key, value: _table(key, value, dict.fromkeys(names, _anything))


def _table_of_anything(key: str, value: Any) -> list[str]:
    return [] if isinstance(value, Mapping) or value == [] else [f"{key} not a list {_shown(value)}"]


def _properties(key: str, value: Any) -> list[str]:
    return _table(key, value, dict.fromkeys(TEXT_PROPERTIES, _text) | dict.fromkeys(NUMBER_PROPERTIES, _number))


def _table(key: str, value: Any, checks: Mapping[str, Check]) -> list[str]:
    if not isinstance(value, Mapping) and value != []:
        return [f"{key} not a list {_shown(value)}"]
    return _in_turn(key, dict(value), checks)


def _uri(may_enter: MayEnter) -> Check:
    def check(key: str, value: Any) -> list[str]:
        if not isinstance(value, str):
            if not isinstance(value, list):
                return [f"{key} should be list, actually was {_shown(value)}"]
            return next((found for each in value if (found := check(key, each))), [] if value else [f"{key} is empty"])
        try:
            endpoint = uris.parse(value)
        except uris.UriError as error:
            return [f'"{without_credentials(value)}" not a valid URI: {error}']
        refused = "" if endpoint.host else may_enter(endpoint.vhost)
        return [refused] if refused else []

    return check


def _shown(value: Any) -> str:
    return binary_term(without_credentials(value))
