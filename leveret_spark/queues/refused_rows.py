"""Rows that no queue has taken, written to Parquet files: a table beside the sink.

A task writes its files when it ends, under names of query, batch and partition: a repeated task replaces its files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from leveret_spark.amqp.headers import headers_to_json
from leveret_spark.amqp.publisher import Outgoing
from leveret_spark.amqp.received_message import PROPERTIES, microseconds
from leveret_spark.queues.message_columns import ARROW_SCHEMA, array_of

PIECE_BYTES = 16 << 20
"""Bytes of bodies in one file; a task holds at most that and one message in memory."""

NAMES = ("body", "exchange", "routing_key", *PROPERTIES)
SCHEMA = pa.schema([*(ARROW_SCHEMA.field(name) for name in NAMES), pa.field("why", pa.string())])
"""The columns of a sink, and `why`: `unroutable` or `refused`."""


class RefusedRows:
    """Takes messages of one task, and writes them into `path`, a directory or the URI of one (s3, gs, hdfs, file)."""

    def __init__(self, path: str, prefix: str) -> None:
        self._path = path
        self._prefix = prefix
        self._kept: list[tuple[Outgoing, str]] = []
        self._bytes = 0
        self._files = 0

    def keep(self, message: Outgoing, why: str) -> None:
        """Take a message. Raises OSError where a file cannot be written."""
        self._kept.append((message, why))
        self._bytes += len(message.body)
        if self._bytes >= PIECE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are kept. Raises OSError."""
        if not self._kept:
            return
        place, directory = (
            fs.FileSystem.from_uri(self._path) if "://" in self._path else (fs.LocalFileSystem(), self._path)
        )
        place.create_dir(directory)
        self._files += 1
        name = f"{self._prefix}-{self._files:05}.parquet"
        with place.open_output_stream(f"{directory}/_tmp.{name}") as out:
            pq.write_table(_table(self._kept), out, compression="zstd")
        place.move(f"{directory}/_tmp.{name}", f"{directory}/{name}")
        self._kept.clear()
        self._bytes = 0


def _table(kept: Sequence[tuple[Outgoing, str]]) -> pa.Table:
    messages = [message for message, _ in kept]
    values = {name: [getattr(message.properties, name) for message in messages] for name in PROPERTIES}
    values["headers"] = [headers_to_json(headers) for headers in values["headers"]]
    values["timestamp"] = [microseconds(seconds) for seconds in values["timestamp"]]
    for name in ("body", "exchange", "routing_key"):
        values[name] = [getattr(message, name) for message in messages]
    values["why"] = [why for _, why in kept]
    return pa.Table.from_arrays([array_of(values[part.name], part.type) for part in SCHEMA], schema=SCHEMA)
