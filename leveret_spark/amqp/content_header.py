"""The properties of a message, and tables of arguments, as they lie in bytes: read by the code that reads the wire."""

from __future__ import annotations

import struct
from operator import attrgetter
from typing import Any

from pika import BasicProperties, data
from pika.exceptions import AMQPError

from leveret_spark.amqp import doubles
from leveret_spark.amqp.received_message import PROPERTIES

doubles.mend()

_values = attrgetter(*PROPERTIES)

PROPERTIES_AT = 12
"""Class, weight and size of the body come first in the payload of a content header frame."""

BROKEN = (AMQPError, struct.error, IndexError, ValueError, OverflowError, OSError)
"""What pika raises for bytes that are no properties; times beyond a calendar are among them."""


def properties_of(header: bytes) -> tuple[Any, ...]:
    """What PROPERTIES names, of a content header's payload. Raises ValueError when it cannot be read."""
    properties = BasicProperties()
    try:
        properties.decode(header, PROPERTIES_AT)
    except BROKEN as error:
        raise ValueError(f"the properties cannot be read: {error}") from None
    found: tuple[Any, ...] = _values(properties)
    return found


def table_of(encoded: bytes) -> dict[str, Any]:
    """A field table with its length before it. Raises ValueError when it cannot be read."""
    try:
        table: dict[str, Any] = data.decode_table(encoded, 0)[0]
    except BROKEN as error:
        raise ValueError(f"a table cannot be read: {error}") from None
    return table
