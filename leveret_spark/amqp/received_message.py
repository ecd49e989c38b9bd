"""A message on its way from the broker to a row."""

from __future__ import annotations

from typing import Any

DELIVERY = ("exchange", "routing_key", "redelivered", "delivery_tag")
"""Columns of a delivery itself."""

PROPERTIES = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
"""The properties of a message in the order of the specification."""

TIMESTAMP_SECONDS_MAX = 253_402_300_799
"""The last second of the year 9999. What claims to be later was not counted in seconds, and is null."""

Message = tuple[Any, ...]
"""Body, then what DELIVERY names, then what PROPERTIES names, as pika gives it: cheap to make, and to pickle."""


def message_of(method: Any, properties: Any, body: bytes) -> Message:
    """A delivery as it travels to the task that makes a row of it."""
    return (
        body,
        method.exchange,
        method.routing_key,
        method.redelivered,
        method.delivery_tag,
        properties.content_type,
        properties.content_encoding,
        properties.headers,
        properties.delivery_mode,
        properties.priority,
        properties.correlation_id,
        properties.reply_to,
        properties.expiration,
        properties.message_id,
        properties.timestamp,
        properties.type,
        properties.user_id,
        properties.app_id,
        properties.cluster_id,
    )


HEADERS_AT = 1 + len(DELIVERY) + PROPERTIES.index("headers")


def stream_offset(message: Message) -> int | None:
    """Return the offset of a stream's message; None for one of a queue."""
    offset = (message[HEADERS_AT] or {}).get("x-stream-offset")
    return None if offset is None else int(offset)


def microseconds(seconds: int | None) -> int | None:
    """A timestamp of a message as columns count; None for one that was not counted in seconds."""
    return None if seconds is None or seconds > TIMESTAMP_SECONDS_MAX else int(seconds) * 1_000_000
