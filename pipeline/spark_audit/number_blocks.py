"""Blocks of message numbers: reduced events cut so that all rows of a message come to the same task.

A message's number is its position in its queues too, as a rule (`moved_copies` has the exceptions), so all copies of a
message are in the block of its number. A *piece* has the rows of one batch in one block, as two Arrow streams: one row
of a DataFrame has thousands of them, which Spark shuffles compressed, without a look at each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.reduction import Reduced, Route

BLOCK_BITS = 13
"""Numbers of a block. A fanout to a thousand queues makes eight million copies of them, about 1.5 GB for a task."""
ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")
NAMES = b"names"
"""Key of a stream's metadata: what the numbers in its column of indices mean."""


class Piece(NamedTuple):
    """Reduced rows of a block: their number, and Arrow streams of copies and of messages."""

    block: int
    rows: int
    copies: bytes
    messages: bytes


class _Cut(NamedTuple):
    """A table of reduced events: the message number of each row, its column of indices, and what these refer to."""

    rows: pa.Table
    numbers: Any
    column: str
    names: list[Any]

    def by_block(self, bits: int) -> dict[int, pa.Table]:
        """Divide the rows by block."""
        blocks = self.numbers >> bits
        order = np.argsort(blocks, kind="stable")
        rows = self.rows.take(pa.array(order))
        found, starts = np.unique(blocks[order], return_index=True)
        ends = np.append(starts[1:], len(order))[: len(starts)]
        return {
            int(block): rows.slice(int(begin), int(end - begin))
            for block, begin, end in zip(found, starts, ends, strict=True)
        }

    def stream(self, rows: pa.Table) -> bytes:
        """Encode some of the rows, with the names that they use."""
        at = rows.schema.get_field_index(self.column)
        used, numbers = np.unique(rows.column(at).to_numpy(), return_inverse=True)
        names = [self.names[number] for number in used.tolist() if number >= 0]
        indices = pa.array(numbers - int(bool(len(used)) and used[0] < 0), pa.int32())
        rows = rows.set_column(at, self.column, indices)
        return arrow_stream(rows.replace_schema_metadata({NAMES: json.dumps(names).encode()}))


def pieces(reduced: Reduced, block_bits: int) -> Iterator[Piece]:
    """Cut reduced events by block."""
    positions, messages = reduced.copies.column("position").to_numpy(), reduced.messages.column("msg_id").to_numpy()
    cuts = (
        _Cut(reduced.copies, positions, "place", reduced.places),
        _Cut(reduced.messages, messages, "route", reduced.routes),
    )
    tables = [cut.by_block(block_bits) for cut in cuts]
    for block in sorted({*tables[0], *tables[1]}):
        rows = [table.get(block, cut.rows.slice(0, 0)) for table, cut in zip(tables, cuts, strict=True)]
        streams = (cut.stream(each) for each, cut in zip(rows, cuts, strict=True))
        yield Piece(block, sum(each.num_rows for each in rows), *streams)


def reduced_of(node: str, copies: bytes, messages: bytes) -> Reduced:
    """Decode the rows of a piece; its events of boots and whole queues are with the driver."""
    copied, places = _restored(copies, tuple)
    sent, routes = _restored(messages, Route._make)
    return Reduced(node, places, copied, sent, routes, [], [], [])


def arrow_stream(rows: pa.Table) -> bytes:
    """Encode a table as a compressed Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=ZSTD) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def table_of(stream: bytes) -> pa.Table:
    """Decode an Arrow stream."""
    return pa.ipc.open_stream(stream).read_all()


def _restored(stream: bytes, name: Callable[[Any], Any]) -> tuple[pa.Table, list[Any]]:
    rows = table_of(stream)
    names = [name(each) for each in json.loads(rows.schema.metadata[NAMES])]
    return rows.replace_schema_metadata(None), names
