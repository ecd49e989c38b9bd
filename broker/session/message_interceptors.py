"""Message interceptors: headers that the broker adds to each published message (RabbitMQ's message_interceptors)."""

from __future__ import annotations

from typing import Literal, NamedTuple

from broker.wire.field_tables import Field
from broker.wire.properties import decode_properties, encode_header

Intercepting = Literal["off", "add", "overwrite"]
"""`add`: unless the publisher has set the header; `overwrite`: in any case."""


class MessageInterceptors(NamedTuple):
    """The headers to add. `node`: the value of x-routed-by."""

    timestamp: Intercepting = "off"
    """Header timestamp_in_ms, in milliseconds since the epoch, and the property timestamp, in seconds."""
    routing_node: Intercepting = "off"
    """Header x-routed-by."""
    node: str = ""

    @property
    def work(self) -> bool:
        """A message has to be changed."""
        return self.timestamp != "off" or self.routing_node != "off"

    def intercepted(self, header: bytes, body_size: int, now: int) -> bytes:
        """Return a content header with the additions; `now` is in milliseconds since the epoch."""
        properties = decode_properties(header)
        headers = dict(properties.headers or {})
        if self.timestamp != "off":
            _set(headers, "timestamp_in_ms", Field("l", now), self.timestamp)
            if self.timestamp == "overwrite" or properties.timestamp is None:
                properties = properties._replace(timestamp=now // 1000)
        if self.routing_node != "off":
            _set(headers, "x-routed-by", Field("S", self.node.encode()), self.routing_node)
        return encode_header(body_size, properties._replace(headers=headers))


def _set(headers: dict[str, Field], name: str, field: Field, how: Intercepting) -> None:
    if how == "overwrite" or name not in headers:
        headers[name] = field
