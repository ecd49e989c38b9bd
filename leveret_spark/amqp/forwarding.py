"""A message that was received, to be published once more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leveret_spark.amqp.float_headers import Properties
from leveret_spark.amqp.publisher import Outgoing
from leveret_spark.amqp.received_message import DELIVERY, PROPERTIES, Message

PROPERTIES_AT = 1 + len(DELIVERY)


def headers_of(message: Message) -> dict[str, Any]:
    """The headers of a message, which may be changed; empty without any."""
    return dict(message[PROPERTIES_AT + PROPERTIES.index("headers")] or {})


def forwarded(message: Message, exchange: str, routing_key: str, headers: Mapping[str, Any], user: str) -> Outgoing:
    """Build a copy of a message for another exchange and routing key, with other headers.

    A `user_id` is kept only if it is our own: a broker rejects any other.
    """
    values = dict(zip(PROPERTIES, message[PROPERTIES_AT:], strict=True))
    values["headers"] = dict(headers) or None
    if values["user_id"] != user:
        values["user_id"] = None
    return Outgoing(exchange, routing_key, Properties(**values), message[0])
