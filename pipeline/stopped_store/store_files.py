"""Export of a stopped broker's store into Parquet files in a new place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pipeline.file_target import Target
from pipeline.stopped_store.store_batches import SCHEMA, record_batches
from pipeline.stopped_store.store_rows import Row

FILE_BYTES = 64 << 20
"""Bytes of record batches in one file, before compression."""

_TIME = pa.timestamp("us", "UTC")
TABLES = {
    "queues": {
        "vhost": pa.string(),
        "queue": pa.string(),
        "type": pa.string(),
        "messages": pa.int64(),
        "bytes": pa.int64(),
        "oldest": pa.int64(),
        "oldest_timestamp": _TIME,
        "auto_delete": pa.bool_(),
        "arguments": pa.string(),
        "queue_id": pa.int64(),
    },
    "exchanges": {
        "vhost": pa.string(),
        "exchange": pa.string(),
        "type": pa.string(),
        "auto_delete": pa.bool_(),
        "internal": pa.bool_(),
        "arguments": pa.string(),
    },
    "bindings": {
        "vhost": pa.string(),
        "source": pa.string(),
        "destination": pa.string(),
        "destination_type": pa.string(),
        "routing_key": pa.string(),
        "arguments": pa.string(),
    },
}


class OccupiedError(ValueError):
    """Raised if the target directory is not empty."""


def write(where: str, tables: Mapping[str, list[dict[str, Any]]], messages: Iterator[Row]) -> Iterator[tuple[str, int]]:
    """Write `queues`, `exchanges`, `bindings`, and messages in one file or several; each with its number of rows.

    Raises OccupiedError if the place is not empty, OSError, and ValueError for a place that cannot be parsed.
    """
    target = Target(where)
    if target.names():
        raise OccupiedError(f"{where}: is not empty; name a new directory")
    for name, rows in tables.items():
        yield _put(target, f"{name}.parquet", pa.Table.from_pylist(rows, pa.schema(TABLES[name])))
    for number, table in enumerate(_pieces(record_batches(messages)), 1):
        yield _put(target, f"messages-{number:06}.parquet", table)


def _put(target: Target, name: str, table: pa.Table) -> tuple[str, int]:
    target.put_table(name, table)
    return name, table.num_rows


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of about FILE_BYTES; at least one, so that a file without messages has its columns."""
    gathered: list[pa.RecordBatch] = []
    has_schema = False
    for batch in batches:
        gathered.append(batch)
        if sum(each.nbytes for each in gathered) >= FILE_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, has_schema = [], True
    if gathered or not has_schema:
        yield pa.Table.from_batches(gathered, SCHEMA)
