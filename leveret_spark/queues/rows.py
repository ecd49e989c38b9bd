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
from leveret_spark.queues.partition_hash import PARTITION, SuperStreamPartitions

TEXT = (StringType,)
WHOLE = (ByteType, ShortType, IntegerType, LongType)
HASHED = (StringType, BinaryType, *WHOLE)
"""Types whose values have the same bytes everywhere."""
ACCEPTED: dict[str, tuple[type[DataType], ...]] = {
    "body": (BinaryType, StringType),
    "exchange": TEXT,
    "routing_key": TEXT,
    "delivery_mode": WHOLE,
    "priority": WHOLE,
    "timestamp": (TimestampType, LongType),
    "headers": (StringType, MapType, ArrayType),
}
KNOWN = {*ACCEPTED, *PROPERTIES}
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
        self.partitions = None if writing.super_stream is None else _partitions(schema, writing)
        if writing.routing_key is None and self.partitions is None and "routing_key" not in self.names:
            raise OptionError("a message needs a column 'routing_key', or option routingKey for all")
        choosing = {PARTITION, *writing.hash_columns} - KNOWN if self.partitions else set()
        for part in schema.fields:
            if part.name not in OF_A_SOURCE | choosing:
                _check(part.name, part.dataType)

    @property
    def properties(self) -> list[str]:
        """Columns that are properties of a message."""
        return [name for name in self.names if name in PROPERTIES]


def _partitions(schema: StructType, writing: Writing) -> SuperStreamPartitions:
    """Return the partitions with the columns that choose among them. Raises OptionError for columns that cannot."""
    kinds = {part.name: part.dataType for part in schema.fields}
    columns = writing.hash_columns or (("routing_key",) if "routing_key" in kinds else ())
    if not columns and PARTITION not in kinds:
        raise OptionError("to a super stream, rows need a column 'routing_key' or 'partition', or option hashColumn")
    for name in columns:
        if name not in kinds:
            raise OptionError(f"option hashColumn has {name!r}; there are {', '.join(kinds)}")
        if not isinstance(kinds[name], HASHED):
            raise OptionError(f"column {name!r} is of type {kinds[name].simpleString()}: cast it to string to hash it")
    if not isinstance(kinds.get(PARTITION, IntegerType()), WHOLE):
        raise OptionError(f"column {PARTITION!r} is of type {kinds[PARTITION].simpleString()}, and must be a number")
    return SuperStreamPartitions(writing.partition_keys, columns)


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
            raise self._unfit("body", "is null")
        exchange = shape.exchange if shape.exchange is not None else row.get("exchange") or ""
        given = {name: self._read(name, row[name]) for name in shape.properties if row[name] is not None}
        properties = Properties(**given)
        if properties.delivery_mode is None:
            properties.delivery_mode = shape.delivery_mode
        if properties.message_id is None:
            properties.message_id = f"{self._prefix}-{self._number}"
        data = body.encode() if isinstance(body, str) else bytes(body)
        return Outgoing(self._read("exchange", exchange), self._key(row), properties, data)

    def _key(self, row: dict[str, Any]) -> str:
        """The routing key of a row; that of its partition in a super stream."""
        shape = self._shape
        if shape.routing_key is not None:
            return shape.routing_key
        if shape.partitions is not None:
            try:
                return shape.partitions.key(row, self._number)
            except IndexError as error:
                raise self._unfit(PARTITION, str(error)) from None
        if row["routing_key"] is None:
            raise self._unfit("routing_key", "is null")
        key: str = self._read("routing_key", row["routing_key"])
        return key

    def _read(self, name: str, value: Any) -> Any:
        """The value of a column as it is sent. Raises ValueError, with row and column, for one that cannot be."""
        try:
            return READ.get(name, _short_text)(value)
        except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
            raise self._unfit(name, str(error)) from None

    def _unfit(self, name: str, why: str) -> ValueError:
        return ValueError(f"row {self._number} of the partition, column {name!r}: {why}")


SHORT_BYTES, OCTET_MAX, LONG_MAX = 255, 255, (1 << 63) - 1


def _short_text(value: str) -> str:
    size = len(value.encode())
    if size > SHORT_BYTES:
        raise ValueError(f"has {size} bytes, more than AMQP's {SHORT_BYTES}")
    return value


def _octet(value: int) -> int:
    if not 0 <= value <= OCTET_MAX:
        raise ValueError(f"{value} is not from 0 to {OCTET_MAX}")
    return value


def _expiration(value: str) -> str:
    if not value.isascii() or not value.isdecimal():
        raise ValueError(f"{value!r} is not a number of milliseconds")
    return _short_text(value)


def _headers(value: Any) -> dict[str, Any]:
    """Headers of JSON text, of a map as Arrow or a row has it, or of an array of keys and values."""
    if isinstance(value, str):
        return _fit(headers_from_json(value))
    if isinstance(value, Mapping):
        return _fit(dict(value))
    return _fit(dict((part["key"], part["value"]) if isinstance(part, dict) else part for part in value))


def _fit(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table of headers. Raises ValueError for what AMQP cannot express."""
    for name, value in table.items():
        if value is not None:
            _check_header(_short_text(name), value)
    return table


def _check_header(name: str, value: Any) -> None:
    if isinstance(value, int) and not -LONG_MAX - 1 <= value <= LONG_MAX:
        raise ValueError(f"header {name!r} is {value}, which has more than 64 bits")
    if isinstance(value, dict):
        _fit(value)
    elif isinstance(value, list):
        for each in value:
            _check_header(name, each)


def _seconds(value: datetime | int) -> int:
    seconds = int(value.timestamp()) if isinstance(value, datetime) else value
    if seconds < 0:
        raise ValueError(f"{value} is before 1970")
    return seconds


READ: dict[str, Callable[[Any], Any]] = {
    "headers": _headers,
    "timestamp": _seconds,
    "priority": _octet,
    "delivery_mode": _octet,
    "expiration": _expiration,
}
"""Conversions and checks of columns that are not short texts."""
