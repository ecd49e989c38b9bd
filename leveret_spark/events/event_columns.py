"""Events as Arrow knows them: the schema of the table, and record batches of it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from leveret_spark.events.event_log_reader import Event, SegmentName, read_columns

SCHEMA = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("boot", pa.int32(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("vhost", pa.string()),
        pa.field("exchange", pa.string()),
        pa.field("routing_key", pa.string()),
        pa.field("queue", pa.string()),
        pa.field("connection", pa.string()),
        pa.field("channel", pa.int32()),
        pa.field("consumer_tag", pa.string()),
        pa.field("delivery_tag", pa.int64()),
        pa.field("msg_id", pa.int64()),
        pa.field("position", pa.int64()),
        pa.field("size_bytes", pa.int32()),
        pa.field("redelivered", pa.bool_()),
        pa.field("persistent", pa.bool_()),
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
    ]
)
"""The fields of Event, in their order."""


def record_batches(name: SegmentName, data: bytes) -> Iterator[pa.RecordBatch]:
    """The events of a sealed segment, some thousand in each batch. Raises SegmentError."""
    assert len(SCHEMA) == len(Event._fields)
    for columns in read_columns(name, data):
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
