"""Parts of a log, read and reduced in tasks of Spark: the rows that they return."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from pipeline.audit.audit import NodeFacts, ReducedPart, facts_of, reduce
from pipeline.audit.log_coverage import Damage
from pipeline.audit.reduction import Bound, Stretch, Told
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.spark_audit.moved_copies import LINKS, first_numbers, links, moved_pieces
from pipeline.spark_audit.number_blocks import arrow_stream, pieces, reduced_of, table_of

PIECE, LINK, LOG, BEGIN = "piece", "link", "log", "begin"
READ = pa.schema(
    [
        ("what", pa.string()),
        ("node", pa.string()),
        *((name, pa.int64()) for name in ("block", "size")),
        *((name, pa.binary()) for name in ("copies", "messages")),
    ]
)
"""Rows of a log that was read, by `what`:
- piece: the copies and messages of a batch in a block, `size` of them;
- link: moved copies (`moved_copies.LINKS`), as an Arrow stream in `copies`;
- begin: links of a block straight to their begin, in the same form;
- log: what a part says of its node as a whole (`LogFacts`), in `messages`.
"""


class LogFacts(NamedTuple):
    """Facts on a node in one part of its log; the rows of each of its blocks, and whether copies have moved."""

    bound: list[Bound]
    told: list[Told]
    stretches: list[Stretch]
    damaged: list[Damage]
    rows: dict[int, int]
    moves: bool


class LogRead(NamedTuple):
    """Facts on all nodes of a log; rows of its blocks, in their order, as node, block, number; whether copies moved."""

    nodes: list[NodeFacts]
    blocks: list[tuple[str, int, int]]
    moves: bool


class Reading(NamedTuple):
    """Parts by task, how they are cut, and where tasks keep what they return, if they do."""

    tasks: Sequence[Sequence[Part]]
    block_bits: int
    kept_in: Target | None = None
    directory: str = ""


def read_parts(reading: Reading, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the parts of the tasks with these numbers: rows of READ."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            kept = list[pa.RecordBatch]()
            for part in reading.tasks[number]:
                rows = _batch(_rows(part.name.node, reduce(part), reading.block_bits))
                kept += [rows] if reading.kept_in else []
                yield rows
            if reading.kept_in:
                name = f"{reading.directory}/part-{number:06}.parquet"
                reading.kept_in.put_table(name, pa.Table.from_batches(kept, READ))


def _rows(node: str, part: ReducedPart, block_bits: int) -> Iterator[dict[str, Any]]:
    facts = LogFacts([], [], [], [part.damage] if part.damage else [], defaultdict(int), moves=False)
    for reduced in part.batches:
        facts.bound.extend(reduced.bound)
        facts.told.extend(reduced.told)
        facts.stretches.extend(reduced.stretches)
        for piece in pieces(reduced, block_bits):
            facts.rows[piece.block] += piece.rows
            yield {"what": PIECE, "node": node, "size": piece.rows, **piece._asdict()}
        moved = links(reduced)
        if moved.num_rows:
            facts = facts._replace(moves=True)
            yield {"what": LINK, "node": node, "size": moved.num_rows, "copies": arrow_stream(moved)}
    yield {"what": LOG, "node": node, "messages": msgspec.msgpack.encode(facts)}


def log_read(rows: Iterable[tuple[str, bytes]]) -> LogRead:
    """Put together what all parts say of their nodes and blocks."""
    decode = msgspec.msgpack.Decoder(LogFacts).decode
    of_nodes = defaultdict[str, list[LogFacts]](list)
    blocks, moves = Counter[tuple[str, int]](), False
    for node, content in rows:
        facts = decode(content)
        of_nodes[node].append(facts)
        blocks.update({(node, block): size for block, size in facts.rows.items()})
        moves |= facts.moves
    nodes = [
        facts_of(node, *(list(chain(*column)) for column in zip(*(each[:4] for each in of_nodes[node]), strict=True)))
        for node in sorted(of_nodes)
    ]
    return LogRead(nodes, sorted((*block, size) for block, size in blocks.items()), moves)


def decoded_links(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode rows of READ with links: rows of LINKS."""
    for batch in batches:
        for stream in batch.column("copies").to_pylist():
            yield from table_of(stream).cast(LINKS).to_batches()


def begins(block_bits: int, of_queue: pa.Table) -> pa.Table:
    """Follow the links of a queue: rows of READ."""
    node = of_queue.column("node")[0].as_py()
    found = [
        {"what": BEGIN, "node": node, "block": block, "copies": stream}
        for block, stream in first_numbers(of_queue, block_bits)
    ]
    return pa.Table.from_pylist(found, READ)


def with_moves(block_bits: int, key: tuple[Any, ...], cut: pa.Table, begun: pa.Table) -> pa.Table:
    """Move copies of a block, in rows of READ, to the blocks where their links begin."""
    if not begun.num_rows:
        return cut
    firsts = pa.concat_tables(map(table_of, begun.column("copies").to_pylist()))
    rows = list[dict[str, Any]]()
    for row in cut.select(("node", "copies", "messages")).to_pylist():
        moved = moved_pieces(reduced_of(**row), firsts, block_bits)
        rows += [{"what": PIECE, "node": row["node"], "size": piece.rows, **piece._asdict()} for piece in moved]
    return pa.Table.from_pylist(rows, READ)


def _batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{name: value for name, value in row.items() if name in READ.names} for row in rows], READ
    )
