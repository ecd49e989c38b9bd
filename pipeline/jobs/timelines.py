"""Timelines of some copies that an audit has found: all their events, read again from few parts of the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.log_coverage import moment
from pipeline.audit.reduction import SEQ_BITS
from pipeline.audit.verdict_counts import FIRST_OF_CAUSE, SAMPLES
from pipeline.event_parts import Part
from pipeline.jobs.engines import Engine

FOUND_AT_ONCE = 10_000
"""Findings that are rows of Python at a time: half a million would take 400 MB."""
LOOKED_AT = ("node", "vhost", "queue", "position", "msg_id", "verdict", "violations", "first", "last")
COLUMNS = (
    *("node", "boot", "seq", "ts", "kind", "vhost", "queue", "exchange", "routing_key", "connection", "channel"),
    *("consumer_tag", "msg_id", "position", "redelivered", "reason", "size_bytes", "properties"),
)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("node", "vhost", "queue")),
        ("position", pa.int64()),
        ("moment", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        *((name, pa.string()) for name in ("kind", "exchange", "routing_key", "connection", "consumer_tag", "reason")),
        ("channel", pa.int32()),
        ("redelivered", pa.bool_()),
        ("size_bytes", pa.int32()),
        ("properties", pa.string()),
    ]
)
OF_MESSAGES = ("publish", "confirm", "nack", "return")
SWEEPS = ("purge", "delete")


class Wanted(NamedTuple):
    """A copy, its message, and the moments of its first and last event; without a queue a message."""

    node: str
    vhost: str | None
    queue: str | None
    position: int
    msg_id: int | None
    first: int
    last: int


def cause(row: dict[str, Any]) -> str:
    """Return the cause of a finding: the copy's violations, or `lost`."""
    return ", ".join([*row["violations"], *(["lost"] if row["verdict"] == "lost" else [])])


def timelines(read: Engine, parts: Sequence[Part], found: pa.Table) -> pa.Table:
    """Read the events of some findings, a few of each queue and cause: rows of SCHEMA, in their order."""
    ranked, seen = list[tuple[int, Wanted]](), Counter[tuple[str, ...]]()
    rows_of_some = (batch.to_pylist() for batch in found.select(LOOKED_AT).to_batches(max_chunksize=FOUND_AT_ONCE))
    for row in chain.from_iterable(rows_of_some):
        group = row["node"], row["vhost"], row["queue"], cause(row)
        seen[group] += 1
        if seen[group] <= FIRST_OF_CAUSE:
            at = row["msg_id"] if row["queue"] is None else row["position"]  # a message that is in no queue, or in all
            copy = Wanted(*group[:3], at, row["msg_id"], row["first"], row["last"])
            ranked.append((seen[group], copy))
    wanted = [copy for _, copy in sorted(ranked, key=itemgetter(0))[:SAMPLES]]
    chosen = [part for part in parts if any(_may_have(part, each) for each in wanted)]
    rows = [row for of_part in read(partial(_told, wanted), chosen) for row in of_part]
    rows.sort(
        key=lambda row: (*(row[name] or "" for name in ("node", "vhost", "queue")), row["position"], row["moment"])
    )
    return pa.Table.from_pylist(rows, SCHEMA)


def _may_have(part: Part, wanted: Wanted) -> bool:
    name = part.name
    begins, ends = moment(name.boot, part.after + 1), moment(name.boot, part.until)
    # Its publish is a little sooner than the first of the copy, its confirm may be later than the last.
    return name.node == wanted.node and begins <= wanted.last + (1 << 20) and ends >= wanted.first - (1 << 16)


def _told(wanted: Sequence[Wanted], part: Part) -> list[dict[str, Any]]:
    """The events of a part that are of wanted copies, once for each."""
    positions = pa.array({each.position for each in wanted}, pa.int64())
    everywhere = pa.array({each.msg_id for each in wanted if each.queue is None}, pa.int64())
    messages = pa.array({each.msg_id for each in wanted if each.msg_id is not None}, pa.int64())
    found = []
    for batch in part.batches(COLUMNS, []):
        kind = batch.column("kind").dictionary_decode()
        of_messages = pc.and_(pc.is_in(kind, pa.array(OF_MESSAGES)), pc.is_in(batch.column("msg_id"), messages))
        chosen = pc.or_(pc.is_in(batch.column("position"), positions), of_messages)
        routes = pc.and_(pc.equal(kind, "route"), pc.is_in(batch.column("msg_id"), everywhere))
        chosen = pc.or_(pc.or_(chosen, routes), pc.is_in(kind, pa.array(SWEEPS)))
        for row in batch.filter(chosen).to_pylist():
            found += [_row(row, each) for each in wanted if _is_of(row, each)]
    return found


def _is_of(row: dict[str, Any], copy: Wanted) -> bool:
    if row["node"] != copy.node:
        return False
    if copy.queue is None:
        return row["kind"] in (*OF_MESSAGES, "route") and bool(row["msg_id"] == copy.msg_id)
    if row["vhost"] != copy.vhost:
        return False
    if row["kind"] in OF_MESSAGES:
        return bool(row["msg_id"] == copy.msg_id)
    at = row["boot"] << SEQ_BITS | row["seq"]
    return row["queue"] == copy.queue and (
        row["position"] == copy.position or (row["kind"] in SWEEPS and copy.first < at <= copy.last)
    )


def _row(row: dict[str, Any], copy: Wanted) -> dict[str, Any]:
    place = {"node": copy.node, "vhost": copy.vhost, "queue": copy.queue, "position": copy.position}
    return {**row, **place, "moment": row["boot"] << SEQ_BITS | row["seq"]}
