"""Messages in bodies of requests: properties by their AMQP names, and payloads as texts."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from broker.admin.short_steps import pause_if_due
from broker.management.json_bodies import ECHO_CHARACTERS, BodyFields, encoded_text
from broker.management.responses import Problem, bad_request
from broker.wire.properties import BasicProperties

NUMBERS = {"delivery_mode": 8, "priority": 8, "timestamp": 64}
"""Properties that are numbers, with their size in bits."""

BASE64_AT_ONCE = 64 * 1024
"""Bytes that are decoded between two checks of the time: this takes some 0.1 ms."""


def properties_of(fields: BodyFields) -> BasicProperties:
    """The properties in a body; unknown ones are ignored. Raises Problem 400."""
    given = BodyFields(fields.table("properties"), fields.table_bytes_max)
    return BasicProperties(**{name: _property(given, name) for name in BasicProperties._fields if name in given})


def _property(given: BodyFields, name: str) -> Any:
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


async def payload_of(fields: BodyFields) -> bytearray:
    """Remove the payload of a message from the fields, and return its bytes. Raises Problem 400."""
    payload, encoding = fields.values.pop("payload"), fields.values["payload_encoding"]
    if not isinstance(payload, str | bytearray):
        raise bad_request("payload_not_string")
    if isinstance(payload, str):
        payload = bytearray(encoded_text(payload, "payload"))
    if encoding == "string":
        return payload
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding[:ECHO_CHARACTERS] if isinstance(encoding, str) else None])
    decoded = bytearray()
    for start in range(0, len(payload), BASE64_AT_ONCE):
        decoded += _from_base64(payload, start)
        await pause_if_due()
    return decoded


def _from_base64(payload: bytearray, start: int) -> bytes:
    """Decode one piece. All but the last one are complete: without padding. Raises Problem 400."""
    piece = payload[start : start + BASE64_AT_ONCE]
    try:
        decoded = b64decode(piece, validate=True)
    except ValueError:
        raise _not_base64(payload) from None
    if start + len(piece) < len(payload) and len(decoded) * 4 != len(piece) * 3:
        raise _not_base64(payload)
    return decoded


def _not_base64(payload: bytearray) -> Problem:
    return bad_request(["not_base64", payload[:ECHO_CHARACTERS].decode("utf-8", "replace")])
