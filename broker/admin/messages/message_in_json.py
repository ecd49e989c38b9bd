"""Messages in JSON: properties by their AMQP names, and payloads as texts."""

from __future__ import annotations

from base64 import b64encode
from codecs import getincrementaldecoder
from typing import Any

from broker.admin.json_tables import plain
from broker.wire.properties import BasicProperties

_Decoder = getincrementaldecoder("utf-8")


def properties_in_json(properties: BasicProperties) -> dict[str, Any] | list[Any]:
    """The properties that are set; an empty list for none, as in RabbitMQ."""
    found = {name: value for name, value in properties._asdict().items() if value is not None}
    if "headers" in found:
        found["headers"] = plain(found["headers"])
    return found or []


def payload_in_json(payload: bytes, *, as_base64: bool) -> dict[str, str]:
    """A payload as text if it is UTF-8, or else in base64."""
    if not as_base64:
        try:
            return {"payload": payload.decode(), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return {"payload": b64encode(payload).decode(), "payload_encoding": "base64"}


def beginning_in_json(payload: bytes, *, as_base64: bool) -> dict[str, str]:
    """The beginning of a payload as text if that is UTF-8, without a last character that is cut; else in base64."""
    if not as_base64:
        try:
            return {"payload": _Decoder().decode(payload), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return payload_in_json(payload, as_base64=True)
