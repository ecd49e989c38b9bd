"""Timelines of some copies that an audit has found: all their events, read again where the log has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.log_coverage import moment
from pipeline.audit.log_timeline import NEARBY_EVENTS
from pipeline.audit.reduction import SEQ_BITS
from pipeline.audit.verdict_counts import FIRST_OF_CAUSE, SAMPLES
from pipeline.event_parts import Part
from pipeline.jobs.engines import TASK_EVENTS_MIN, Engine, events_in, here

FOUND_AT_ONCE = 10_000
"""Findings that are rows of Python at a time: half a million would take 400 MB."""
LOOKED_AT = ("node", "vhost", "queue", "position", "msg_id", "verdict", "violations", "first", "last", "seen")
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
    """A copy, its message, the moments of its first and last event, and pairs of moments between which all of them are;
    without a queue a message.
    """

    node: str
    vhost: str | None
    queue: str | None
    position: int
    msg_id: int | None
    first: int
    last: int
    seen: list[int]


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
            copy = Wanted(*group[:3], at, row["msg_id"], row["first"], row["last"], row["seen"])
            ranked.append((seen[group], copy))
    wanted = [copy for _, copy in sorted(ranked, key=itemgetter(0))[:SAMPLES]]
    chosen = [narrow for part in parts for narrow in _narrowed(part, wanted)]
    # Usually they are fewer than a task is worth, wherever the log itself was read.
    read = read if events_in(chosen) > TASK_EVENTS_MIN else here
    rows = [row for of_part in read(partial(_told, wanted), chosen) for row in of_part]
    rows.sort(
        key=lambda row: (*(row[name] or "" for name in ("node", "vhost", "queue")), row["position"], row["moment"])
    )
    return pa.Table.from_pylist(rows, SCHEMA)


def _narrowed(part: Part, wanted: Sequence[Wanted]) -> Iterator[Part]:
    """Yield the events of a part among which there are some of wanted copies."""
    boot, last = moment(part.name.boot, 0), part.after
    for first, end in sorted(pair for each in wanted if each.node == part.name.node for pair in _seen(each)):
        after, until = max(first - boot - 1, last), min(end - boot, part.until)
        if after < until:
            yield part._replace(after=after, until=until)
            last = until


def _seen(wanted: Wanted) -> Iterator[tuple[int, int]]:
    """Yield the ends of where a copy is seen; all routes of a message follow its publish within NEARBY_EVENTS."""
    further = NEARBY_EVENTS if wanted.queue is None else 0
    for first, last in zip(wanted.seen[::2], wanted.seen[1::2], strict=True):
        yield first, last + further


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
