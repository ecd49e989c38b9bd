"""Properties for messages that tests put into queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.wire.field_tables import from_python
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message

PERSISTENT = BasicProperties(delivery_mode=2)
TRANSIENT = BasicProperties(delivery_mode=1)


def with_headers(headers: Mapping[str, Any], *, delivery_mode: int = 2) -> BasicProperties:
    """A persistent message's properties, with these headers."""
    return BasicProperties(headers=from_python(headers), delivery_mode=delivery_mode)


def flags(messages: list[Message]) -> list[tuple[bytes, bool]]:
    """Each message's body and whether it was marked as redelivered."""
    return [(message.body, message.method.redelivered) for message in messages]
