"""Rows of a stopped broker's store in record batches, as Arrow, Parquet and Spark take them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pipeline.stopped_store.store_rows import COLUMNS, TIMES, Row

TYPES = {
    "body": pa.binary(),
    **dict.fromkeys(("position", "msg_id", "queue_id", "segment", "shared_body"), pa.int64()),
    **dict.fromkeys(("delivery_mode", "priority", "size_bytes", "delivery_count", "lane"), pa.int32()),
    **dict.fromkeys(("persistent", "delivered"), pa.bool_()),
    **dict.fromkeys(TIMES, pa.timestamp("us", "UTC")),
}
"""The columns that are not text."""

SCHEMA = pa.schema([pa.field(name, TYPES.get(name, pa.string())) for name in COLUMNS])

BATCH_ROWS = 2000
BATCH_BYTES = 16 << 20
BODY = COLUMNS.index("body")


def record_batches(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    """Rows in batches of at most 2,000, and of 16 MiB of bodies."""
    gathered: list[Row] = []
    size = 0
    for row in rows:
        gathered.append(row)
        size += len(row[BODY] or b"")
        if len(gathered) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(gathered)
            gathered, size = [], 0
    if gathered:
        yield _batch(gathered)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), SCHEMA.types, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(values, kind) for values, kind in columns], schema=SCHEMA)
