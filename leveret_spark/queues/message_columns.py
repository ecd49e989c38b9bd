"""The columns of a message, and a batch of messages as Arrow has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret_spark.amqp.headers import headers_to_bytes, headers_to_json, headers_to_texts
from leveret_spark.amqp.received_message import DELIVERY, HEADERS_AT, PROPERTIES, Message, microseconds, stream_offset
from leveret_spark.option_errors import OptionError

TYPES: dict[str, DataType] = {
    "body": BinaryType(),
    "redelivered": BooleanType(),
    "delivery_tag": LongType(),
    "delivery_mode": IntegerType(),
    "priority": IntegerType(),
    "timestamp": TimestampType(),
}
"""The columns that are not text."""

HEADERS_AS: dict[str, DataType] = {
    "json": StringType(),
    "map": MapType(StringType(), StringType()),
    "array": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
"""The forms of the column of headers; an array of structs is that of Spark's source for Kafka."""

ARROW_TYPES: dict[DataType, pa.DataType] = {
    BinaryType(): pa.binary(),
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    StringType(): pa.string(),
    TimestampType(): pa.timestamp("us", tz="UTC"),
    HEADERS_AS["map"]: pa.map_(pa.string(), pa.string()),
    HEADERS_AS["array"]: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
SHOWN: dict[str, Callable[[Mapping[str, Any] | None], Any]] = {
    "json": headers_to_json,
    "map": headers_to_texts,
    "array": headers_to_bytes,
}
FIELDS = [StructField(name, TYPES.get(name, StringType())) for name in ("body", *DELIVERY, "queue", *PROPERTIES)]
SCHEMA = StructType(FIELDS)
ARROW_SCHEMA = pa.schema([pa.field(part.name, ARROW_TYPES[part.dataType]) for part in FIELDS])


def record_batch(
    messages: Sequence[Message], queue: str, shown: Callable[..., Any] = headers_to_json
) -> pa.RecordBatch:
    """Rows of ARROW_SCHEMA, unless headers are shown in another form. There must be at least one message."""
    values = dict(zip(("body", *DELIVERY, *PROPERTIES), zip(*messages, strict=True), strict=True))
    values["queue"] = (queue,) * len(messages)
    values["headers"] = tuple(shown(table) for table in values["headers"])
    values["timestamp"] = tuple(microseconds(seconds) for seconds in values["timestamp"])
    kinds = {part.name: part.type for part in ARROW_SCHEMA}
    kinds["headers"] = next(ARROW_TYPES[HEADERS_AS[form]] for form in SHOWN if SHOWN[form] is shown)
    return pa.RecordBatch.from_arrays([array_of(values[name], kinds[name]) for name in kinds], names=list(kinds))


BROKER_TIMESTAMP, BROKER_TIME_HEADER = "broker_timestamp", "timestamp_in_ms"
"""The column of the time at which the broker took a message, and the header in which its interceptor leaves that."""

PLACES = {name: place for place, name in enumerate(("body", *DELIVERY, *PROPERTIES))}


class Columns:
    """The columns that a source gives: those of ARROW_SCHEMA, headers in one of their forms, and `offset`.

    Every column but the properties, `offset` and the broker's timestamp always has a value.
    """

    def __init__(self, headers_as: str, *, broker_timestamp: bool = False) -> None:
        self._shown = SHOWN[headers_as]
        fields = [StructField("headers", HEADERS_AS[headers_as]) if part.name == "headers" else part for part in FIELDS]
        last = [StructField(BROKER_TIMESTAMP, TimestampType())] if broker_timestamp else []
        self.schema = StructType([*fields, StructField("offset", LongType()), *last])

    def chosen(self, schema: StructType) -> Columns:
        """Return some of the columns, so that no others are made. Raises OptionError for others."""
        ours = {part.name: part.dataType for part in self.schema}
        for part in schema:
            if part.name not in ours or ours[part.name] != part.dataType:
                raise OptionError(f"schema() has {part.simpleString()}, and may have {self.schema.simpleString()}")
        chosen = copy(self)
        chosen.schema = schema
        return chosen

    def of_queue(self, messages: Sequence[Message], queue: str) -> pa.RecordBatch:
        """Rows of messages of a queue, which have no offset."""
        return self._rows(messages, queue)

    def of_stream(self, messages: Sequence[Message], queue: str) -> pa.RecordBatch:
        """Rows of messages of a stream."""
        return self._rows(messages, queue, offsets=True)

    def _rows(self, messages: Sequence[Message], queue: str, *, offsets: bool = False) -> pa.RecordBatch:
        arrays = [
            array_of(self._values(part.name, messages, queue, offsets=offsets), ARROW_TYPES[part.dataType])
            for part in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self.schema.fieldNames())

    def _values(self, name: str, messages: Sequence[Message], queue: str, *, offsets: bool) -> list[Any]:
        if name == "queue":
            return [queue] * len(messages)
        if name == "offset":
            return [stream_offset(message) for message in messages] if offsets else [None] * len(messages)
        if name == BROKER_TIMESTAMP:
            return [_broker_time(message) for message in messages]
        place = PLACES[name]
        if name == "headers":
            return [self._shown(message[place]) for message in messages]
        if name == "timestamp":
            return [microseconds(message[place]) for message in messages]
        return [message[place] for message in messages]


def _broker_time(message: Message) -> int | None:
    """Microseconds since 1970; None where the broker has left no time in the headers."""
    value = (message[HEADERS_AT] or {}).get(BROKER_TIME_HEADER)
    return None if not isinstance(value, int) or microseconds(value // 1000) is None else int(value) * 1000


def array_of(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow column. Names and properties may be bytes that are no UTF-8; those are shown with escapes."""
    try:
        return pa.array(values, kind)
    except pa.ArrowException:
        if kind != pa.string():
            raise
        return pa.array([_text(value) for value in values], kind)


def _text(value: str | bytes | None) -> str | None:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
