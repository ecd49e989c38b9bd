"""Stored properties and arguments as values of the columns of the source `amqp`.

They are decoded by the broker's own code, with the results that pika has for that source: text if bytes are UTF-8,
signed decimals.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from broker.wire.amqp_errors import DecodeError
from broker.wire.field_tables import Field, Table, decode_table
from broker.wire.properties import HEADER_START, decode_properties
from leveret_spark.amqp.headers import headers_to_json
from leveret_spark.amqp.received_message import microseconds

PROPERTIES_CACHED = 4096


def properties_of(header: bytes) -> tuple[Any, ...]:
    """Decode the properties of a content header, in their order: headers as JSON, the timestamp in microseconds.

    Raises ValueError if they cannot be read.
    """
    return _properties(header[HEADER_START.size :])


@lru_cache(PROPERTIES_CACHED)
def _properties(encoded: bytes) -> tuple[Any, ...]:
    try:
        found = decode_properties(bytes(HEADER_START.size) + encoded)
    except DecodeError as error:
        raise ValueError(f"the properties cannot be read: {error}") from None
    headers = None if found.headers is None else headers_to_json(_plain_table(found.headers))
    values = found._replace(headers=None, timestamp=microseconds(found.timestamp))
    shown = [plain(value) if isinstance(value, str) else value for value in values]
    shown[values._fields.index("headers")] = headers
    return tuple(shown)


def arguments_of(encoded: bytes) -> dict[str, Any]:
    """Decode a definition's arguments; empty if they cannot be read."""
    try:
        return _plain_table(decode_table(encoded)[0])
    except (DecodeError, ValueError):
        return {}


def plain(name: str) -> str:
    """Return a name as text: bytes that are not UTF-8 become escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _plain_table(table: Table) -> dict[str, Any]:
    return {plain(name): _plain_value(field) for name, field in table.items()}


def _plain_value(field: Field) -> Any:
    """Raises ValueError for a time that no calendar has."""
    match field.kind:
        case "S":
            return _text(field.value)
        case "A":
            return [_plain_value(item) for item in field.value]
        case "F":
            return _plain_table(field.value)
        case "D":
            scale, unscaled = field.value
            return Decimal(unscaled - (unscaled >> 31 << 32)).scaleb(-scale)
        case "T":
            return _time(field.value)
    return field.value


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _time(seconds: int) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"the properties cannot be read: {error}") from None
