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
from pipeline.audit.reduction import SEQ_BITS, Bound, Stretch, Told
from pipeline.event_parts import Part
from pipeline.spark_audit.moved_copies import links
from pipeline.spark_audit.number_blocks import arrow_stream, pieces
from pipeline.spark_audit.worker_modules import kept_apart

PIECE, LINK, LOG = "piece", "link", "log"
READ = pa.schema(
    [
        *((name, pa.string()) for name in ("what", "node", "vhost", "queue")),
        *((name, pa.int64()) for name in ("block", "size")),
        *((name, pa.binary()) for name in ("copies", "messages")),
    ]
)
"""Rows of a log that was read, by `what`:
- piece: the copies and messages of a batch in a block, `size` of them;
- link: moved copies of a queue (`moved_copies.LINKS`), as an Arrow stream in `copies`;
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
    """Facts on all nodes of a log; rows of its blocks, in their order, as node, block, number; whether copies moved.

    `told` has what the parts say, by node.
    """

    nodes: list[NodeFacts]
    blocks: list[tuple[str, int, int]]
    moves: bool
    told: dict[str, LogFacts]


class Reading(NamedTuple):
    """Parts by task, and how they are cut."""

    tasks: Sequence[Sequence[Part]]
    block_bits: int


def read_parts(reading: Reading, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the parts of the tasks with these numbers: rows of READ."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for part in reading.tasks[number]:
                yield read_rows(part.name.node, reduce(part), reading.block_bits)
    kept_apart()


def read_rows(node: str, part: ReducedPart, block_bits: int) -> pa.RecordBatch:
    """Return a reduced part as rows of READ."""
    return _batch(_rows(node, part, block_bits))


def _rows(node: str, part: ReducedPart, block_bits: int) -> Iterator[dict[str, Any]]:
    facts = LogFacts([], [], [], [part.damage] if part.damage else [], defaultdict(int), moves=False)
    for reduced in part.batches:
        facts.bound.extend(reduced.bound)
        facts.told.extend(reduced.told)
        facts.stretches.extend(reduced.stretches)
        for piece in pieces(reduced, block_bits):
            facts.rows[piece.block] += piece.rows
            yield {"what": PIECE, "node": node, "size": piece.rows, **piece._asdict()}
        for (vhost, queue), moved in links(reduced):
            facts = facts._replace(moves=True)
            of_queue = {"node": node, "vhost": vhost, "queue": queue, "size": moved.num_rows}
            yield {"what": LINK, **of_queue, "copies": arrow_stream(moved)}
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
    told = {node: _merged(of_nodes[node]) for node in sorted(of_nodes)}
    nodes = [facts_of(node, *facts[:4]) for node, facts in told.items()]
    return LogRead(nodes, sorted((*block, size) for block, size in blocks.items()), moves, told)


def _merged(facts: Sequence[LogFacts]) -> LogFacts:
    bound, told, stretches, damaged = (
        list(chain(*column)) for column in zip(*(each[:4] for each in facts), strict=True)
    )
    return LogFacts(bound, told, stretches, damaged, {}, moves=False)


def kept_facts(node: str, facts: LogFacts, since: int) -> dict[str, Any]:
    """Return a row of READ with what a state keeps of what the parts of a log have said of a node.

    Of boots before `since`, that is when they began and ended.
    """
    stretches = list[Stretch]()
    for each in sorted(facts.stretches):
        before = stretches[-1] if stretches else None
        if before is not None and (before.boot, before.last + 1) == each[:2]:
            times = min(before.first_us, each.first_us), max(before.last_us, each.last_us)
            stretches[-1] = Stretch(before.boot, before.first, each.last, *times)
        else:
            stretches.append(each)
    kept = facts._replace(
        bound=[each for each in facts.bound if each.moment >> SEQ_BITS >= since],
        told=[
            each for each in facts.told if each.moment >> SEQ_BITS >= since or each.kind in ("boot", "stop", "snapshot")
        ],
        stretches=stretches,
    )
    return {"what": LOG, "node": node, "messages": msgspec.msgpack.encode(kept)}


def _batch(rows: Iterable[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{name: value for name, value in row.items() if name in READ.names} for row in rows], READ
    )
