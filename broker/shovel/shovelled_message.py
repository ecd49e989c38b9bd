"""A message as a shovel publishes it: exchange, routing key, and the properties and headers that the shovel sets.

If it sets none the payload of the header frame is passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from broker.client.link import CHANNEL
from broker.shovel.definition import ShovelDestination, ShovelName, ShovelSource
from broker.wire import methods
from broker.wire.assembler import Command
from broker.wire.field_tables import Field, Table, from_python
from broker.wire.frames import method_frame
from broker.wire.properties import decode_properties, encode_header

SHOVELLED, TIMESTAMP, INVALID = "x-shovelled", "x-shovelled-timestamp", "x-invalid-headers"
ROUTES_KEPT = 256


class Forwarding:
    """Makes the publish of each delivery of a running shovel. `hop` is the entry that it adds to x-shovelled."""

    def __init__(self, destination: ShovelDestination, hop: Mapping[str, str], seconds: Callable[[], float]) -> None:
        self._destination = destination
        self._hop = Field("F", from_python(hop))
        self._seconds = seconds
        self._properties = {name: _fitting(value) for name, value in destination.properties.items()}
        self._frame = lru_cache(ROUTES_KEPT)(self._publish_frame)
        self._changes = bool(self._properties or destination.forward_headers or destination.timestamp_header)

    def __call__(self, command: Command) -> tuple[bytes, bytes]:
        """Return the frame of basic.publish and the payload of the header frame for a delivery."""
        method = command.method
        assert isinstance(method, methods.BasicDeliver)
        assert command.header_payload is not None
        frame = self._frame(method.exchange, method.routing_key)
        return frame, self._changed(command) if self._changes else command.header_payload

    def _publish_frame(self, exchange: str, key: str) -> bytes:
        to = self._destination
        if to.queue is not None:
            exchange, key = "", to.queue
        else:
            exchange = exchange if to.exchange is None else to.exchange
            key = key if to.key is None else to.key
        return method_frame(CHANNEL, methods.BasicPublish(exchange, key, False, False))

    def _changed(self, command: Command) -> bytes:
        assert command.header_payload is not None
        properties = decode_properties(command.header_payload)._replace(**self._properties)
        headers = dict(properties.headers or {})
        if self._destination.forward_headers:
            _prepend(headers, self._hop)
        if self._destination.timestamp_header:
            headers[TIMESTAMP] = Field("l", int(self._seconds()))
        if headers or properties.headers is not None:
            properties = properties._replace(headers=headers)
        return encode_header(len(command.body), properties)


def _prepend(headers: Table, hop: Field) -> None:
    """Put a hop before the earlier ones. A header that is not a list is moved to x-invalid-headers, as in RabbitMQ."""
    before = headers.get(SHOVELLED)
    if before is not None and before.kind != "A":
        invalid = headers.get(INVALID)
        kept = dict(invalid.value) if invalid is not None and invalid.kind == "F" else {}
        earlier = kept[SHOVELLED].value if SHOVELLED in kept and kept[SHOVELLED].kind == "A" else []
        headers[INVALID] = Field("F", {**kept, SHOVELLED: Field("A", [before, *earlier])})
        before = None
    headers[SHOVELLED] = Field("A", [hop, *(before.value if before is not None else [])])


def hop(
    name: ShovelName, cluster: str, source: ShovelSource, destination: ShovelDestination, uris: tuple[str, str]
) -> dict[str, str]:
    """Return the x-shovelled entry of a shovel that runs from the first of these URIs to the second."""
    said = {"shovelled-by": cluster, "shovel-type": name.kind, "shovel-name": name.name}
    if name.vhost is not None:
        said["shovel-vhost"] = name.vhost
    return said | {"src-uri": uris[0], "dest-uri": uris[1]} | source.described | destination.described


def _fitting(value: Any) -> Any:
    """Return a value that a property can have: numbers are integers."""
    return int(value) if isinstance(value, float) else value
