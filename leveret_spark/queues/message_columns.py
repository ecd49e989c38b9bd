"""The columns of a message, and a batch of messages as Arrow has it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from leveret_spark.amqp.headers import headers_to_json
from leveret_spark.amqp.received_message import DELIVERY, PROPERTIES, Message, microseconds

TYPES: dict[str, DataType] = {
    "body": BinaryType(),
    "redelivered": BooleanType(),
    "delivery_tag": LongType(),
    "delivery_mode": IntegerType(),
    "priority": IntegerType(),
    "timestamp": TimestampType(),
}
"""The columns that are not text."""

SCHEMA = StructType(
    [StructField(name, TYPES.get(name, StringType())) for name in ("body", *DELIVERY, "queue", *PROPERTIES)]
)
"""What a source gives. Every column but the properties always has a value."""

ARROW_TYPES: dict[DataType, pa.DataType] = {
    BinaryType(): pa.binary(),
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    StringType(): pa.string(),
    TimestampType(): pa.timestamp("us", tz="UTC"),
}
ARROW_SCHEMA = pa.schema([pa.field(part.name, ARROW_TYPES[part.dataType]) for part in SCHEMA.fields])


def record_batch(messages: Sequence[Message], queue: str) -> pa.RecordBatch:
    """Rows of SCHEMA. There must be at least one message."""
    values = dict(zip(("body", *DELIVERY, *PROPERTIES), zip(*messages, strict=True), strict=True))
    values["queue"] = (queue,) * len(messages)
    values["headers"] = tuple(headers_to_json(table) for table in values["headers"])
    values["timestamp"] = tuple(microseconds(seconds) for seconds in values["timestamp"])
    arrays = [array_of(values[part.name], part.type) for part in ARROW_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


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
