"""Messages in JSON's terms: properties by their AMQP names, and payloads as texts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from broker.admin.json_tables import plain
from broker.management.answers import bad_request
from broker.management.bodies import Fields
from broker.wire.properties import BasicProperties

NUMBERS = {"delivery_mode": 8, "priority": 8, "timestamp": 64}
"""Properties that are numbers, and of how many bits."""


def properties_in_json(properties: BasicProperties) -> dict[str, Any] | list[Any]:
    """The properties that were set; an empty list for none, as in RabbitMQ."""
    found = {name: value for name, value in properties._asdict().items() if value is not None}
    if "headers" in found:
        found["headers"] = plain(found["headers"])
    return found or []


def properties_of(fields: Fields) -> BasicProperties:
    """The properties in a body. Unknown ones are passed over. Raises Problem 400."""
    given = Fields(fields.table("properties"))
    return BasicProperties(**{name: _property(given, name) for name in BasicProperties._fields if name in given})


def _property(given: Fields, name: str) -> Any:
    if name == "headers":
        return given.amqp_table(name)
    if name in NUMBERS:
        return _number(given.values[name], name)
    return given.short_text(name)


def _number(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(["not_int", name])
    if not 0 <= value < 1 << NUMBERS[name]:
        raise bad_request(f"{name}: {value} does not fit {NUMBERS[name]} bits")
    return value


def payload_of(fields: Fields) -> bytes:
    """The payload of a message to be published. Raises Problem 400."""
    payload, encoding = fields.values["payload"], fields.values["payload_encoding"]
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if encoding == "string":
        return payload.encode("utf-8", "surrogateescape")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return b64decode(payload, validate=True)
    except ValueError:
        raise bad_request(["not_base64", payload]) from None


def payload_in_json(payload: bytes, *, as_base64: bool) -> dict[str, str]:
    """A payload as it is where it is UTF-8, else in base64."""
    if not as_base64:
        try:
            return {"payload": payload.decode(), "payload_encoding": "string"}
        except UnicodeDecodeError:
            pass
    return {"payload": b64encode(payload).decode(), "payload_encoding": "base64"}
