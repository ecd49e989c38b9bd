"""Properties for messages that tests put into queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker.wire.field_tables import Field, from_python
from broker.wire.properties import BasicProperties
from harness.clients.amqp_peer import Message

PERSISTENT = BasicProperties(delivery_mode=2)
TRANSIENT = BasicProperties(delivery_mode=1)
ALL_PROPERTIES = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"k": Field("S", b"v")},
    delivery_mode=2,
    priority=7,
    correlation_id="corr",
    reply_to="somewhere",
    expiration="60000",
    message_id="id-1",
    timestamp=1_700_000_000,
    type="kind",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)
"""Each with a value of its own, which a message may be published with by guest."""


def with_headers(headers: Mapping[str, Any], *, delivery_mode: int = 2) -> BasicProperties:
    """A persistent message's properties, with these headers."""
    return BasicProperties(headers=from_python(headers), delivery_mode=delivery_mode)


def flags(messages: list[Message]) -> list[tuple[bytes, bool]]:
    """Each message's body and whether it was marked as redelivered."""
    return [(message.body, message.method.redelivered) for message in messages]
