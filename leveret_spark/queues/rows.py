"""Conversion of rows to messages: meaning of the columns, and checks of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from leveret_spark.amqp.float_headers import Properties
from leveret_spark.amqp.headers import headers_from_json
from leveret_spark.amqp.publisher import Outgoing
from leveret_spark.amqp.received_message import PROPERTIES
from leveret_spark.option_errors import OptionError
from leveret_spark.options import Writing
from leveret_spark.queues.message_columns import HEADERS_AS

TEXT = (StringType,)
WHOLE = (ByteType, ShortType, IntegerType, LongType)
ACCEPTED: dict[str, tuple[type[DataType], ...]] = {
    "body": (BinaryType, StringType),
    "exchange": TEXT,
    "routing_key": TEXT,
    "delivery_mode": WHOLE,
    "priority": WHOLE,
    "timestamp": (TimestampType, LongType),
    "headers": (StringType, MapType, ArrayType),
}
HEADER_TYPES = [kind.simpleString() for kind in HEADERS_AS.values()]
OF_A_SOURCE = {"queue", "redelivered", "delivery_tag", "offset"}
"""Columns of a source that say nothing about a new message; they are passed over, so that a stream can be copied."""


class RowShape:
    """The columns of the rows that a sink is given. Raises OptionError for one that it cannot use."""

    def __init__(self, schema: StructType, writing: Writing) -> None:
        self.names = schema.fieldNames()
        self.exchange = writing.exchange
        self.routing_key = writing.routing_key
        self.delivery_mode = 2 if writing.persistent else 1
        if "body" not in self.names:
            raise OptionError(f"a message needs a column 'body'; there are {', '.join(self.names) or 'none'}")
        if writing.routing_key is None and "routing_key" not in self.names:
            raise OptionError("a message needs a column 'routing_key', or option routingKey for all")
        for part in schema.fields:
            if part.name not in OF_A_SOURCE:
                _check(part.name, part.dataType)

    @property
    def properties(self) -> list[str]:
        """Columns that are properties of a message."""
        return [name for name in self.names if name in PROPERTIES]


def _check(name: str, kind: DataType) -> None:
    accepted = ACCEPTED.get(name, TEXT if name in PROPERTIES else None)
    if accepted is None:
        raise OptionError(f"column {name!r} is not a message property: drop it, or put it into 'headers' or 'body'")
    if not isinstance(kind, accepted) or (name == "headers" and kind.simpleString() not in HEADER_TYPES):
        names = " or ".join(HEADER_TYPES if name == "headers" else [one.typeName() for one in accepted])
        raise OptionError(f"column {name!r} is of type {kind.simpleString()}, and must be {names}")


class Rows:
    """Makes messages of the rows of one task, and ids for those that have none: `prefix` and the row's number."""

    def __init__(self, shape: RowShape, prefix: str) -> None:
        self._shape = shape
        self._prefix = prefix
        self._number = 0

    def messages(self, item: pa.RecordBatch | Any) -> Iterator[Outgoing]:
        """The messages of a record batch, or of one row. Raises ValueError for a value that cannot be sent."""
        shape = self._shape
        if isinstance(item, pa.RecordBatch):
            rows = list(zip(*(column.to_pylist() for column in item.columns), strict=True))
        else:
            rows = [tuple(item)]
        for values in rows:
            yield self._message(dict(zip(shape.names, values, strict=True)))
            self._number += 1

    def _message(self, row: dict[str, Any]) -> Outgoing:
        shape = self._shape
        body = row["body"]
        if body is None:
            raise ValueError(f"row {self._number} of the partition: 'body' is null")
        key = shape.routing_key if shape.routing_key is not None else row["routing_key"]
        if key is None:
            raise ValueError(f"row {self._number} of the partition: 'routing_key' is null")
        exchange = shape.exchange if shape.exchange is not None else row.get("exchange") or ""
        given = {name: row[name] for name in shape.properties if row[name] is not None}
        properties = Properties(**{name: READ.get(name, _same)(value) for name, value in given.items()})
        if properties.delivery_mode is None:
            properties.delivery_mode = shape.delivery_mode
        if properties.message_id is None:
            properties.message_id = f"{self._prefix}-{self._number}"
        return Outgoing(exchange, key, properties, body.encode() if isinstance(body, str) else bytes(body))


def _same(value: Any) -> Any:
    return value


def _headers(value: Any) -> dict[str, Any]:
    """Headers of JSON text, of a map as Arrow or a row has it, or of an array of keys and values."""
    if isinstance(value, str):
        return headers_from_json(value)
    if isinstance(value, Mapping):
        return dict(value)
    return dict((part["key"], part["value"]) if isinstance(part, dict) else part for part in value)


def _seconds(value: datetime | int) -> int:
    return int(value.timestamp()) if isinstance(value, datetime) else value


READ: dict[str, Callable[[Any], Any]] = {"headers": _headers, "timestamp": _seconds}
"""Conversions of columns that are not sent unchanged."""
