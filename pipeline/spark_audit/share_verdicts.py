"""The verdicts on a share of a log's messages, in a task of Spark.

The task writes the rows of the tables `audit` and `found` itself, into a file named after the share: a task that is
repeated replaces it. What it returns are facts: counts, samples of findings, and the spans of deliveries, by which
shares with copies that were overtaken by those of another are found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.audit import NodeFacts, ReducedPart, share_of
from pipeline.audit.copy_verdicts import Judged, Node, judged
from pipeline.audit.delivery_order import NOBODY, Overtakers
from pipeline.audit.publish_verdicts import Counts
from pipeline.audit.reduction import NEVER, SEQ_BITS, Groups, Place, Reduced
from pipeline.audit.verdict_counts import causes_of, found_in, samples_of, tally_of
from pipeline.file_target import Target
from pipeline.spark_audit.log_reading import READ, read_rows
from pipeline.spark_audit.moved_copies import guests_of, judged_in
from pipeline.spark_audit.number_blocks import arrow_stream, reduced_of
from pipeline.spark_audit.open_messages import (
    closed_rows,
    for_the_late,
    highest_closed,
    highest_deliveries,
    open_numbers,
    rows_of,
)
from pipeline.spark_audit.worker_modules import kept_apart

TALLIED, CAUSE, DOUBT, MESSAGES, SPAN, SAMPLES = "tally", "cause", "doubt", "messages", "span", "samples"
LATE, SETTLED = "late", "settled"
NO_QUEUE = (None, None)
"""In rows of pieces, in place of virtual host and queue, which rows of `moved_copies.GUESTS` have."""
CLOSED_TALLY, CLOSED_MESSAGES, CLOSED, OVERTAKER, OLDEST = (
    "closed tally",
    "closed messages",
    "closed",
    "overtaker",
    "oldest",
)
FACTS = pa.schema(
    [
        *((name, pa.string()) for name in ("what", "node", "vhost", "queue", "name")),
        *((name, pa.int64()) for name in ("moment", "share", "range", "one", "two")),
        ("rows", pa.binary()),
    ]
)
"""Rows that tasks return, by `what`:
- tally: copies (`one`) and violations (`two`) of a queue with the verdict `name`;
- cause: findings (`one`) in a queue by the cause `name`;
- doubt: copies that are unknown due to the gap at `moment`;
- messages: a count of messages by its `name`;
- span: first and last new delivery in a queue, boot (`moment`) and range of positions;
- samples: findings as an Arrow stream;
and of an audit that goes on:
- closed tally, closed messages: counts as above of messages that are forgotten from now on;
- closed: the highest number (`one`) of those of the boot at `moment`;
- overtaker: a delivery as of `Elsewhere`, at position `two`, to be remembered; LATE: for the sake of a finding;
- oldest: the first boot (`one`) of which events are kept.
"""


class Elsewhere(NamedTuple):
    """First new delivery of copies in other shares: at positions from `position` on."""

    place: Place
    boot: int
    position: int
    first: int


class Mixed(NamedTuple):
    """A range of positions in a queue and boot, of which several shares have copies."""

    node: str
    vhost: str
    queue: str
    boot: int
    range: int


class Keeping(NamedTuple):
    """Directory for the state of an audit that goes on, and for each node the moment from which on events are late."""

    target: Target
    directory: str
    limits: Mapping[str, int]


class _NodeVerdicts(NamedTuple):
    node: Node
    judged: Judged

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def places(self) -> list[Place]:
        return self.node.places


class Judging(NamedTuple):
    """Data that all tasks have: where tables go, the shares of each node, what the log says as a whole.

    `begins` has the first block of each share of a node, and `numbers` the shares. `before` are deliveries that earlier
    audits have seen, by node.
    """

    target: Target
    directory: str
    shown: int
    block_bits: int
    facts: Mapping[str, NodeFacts]
    begins: Mapping[str, Any]
    numbers: Mapping[str, Any]
    elsewhere: Mapping[tuple[int, str], list[Elsewhere]]
    before: Mapping[str, list[Elsewhere]]
    keeping: Keeping | None = None

    def ranges(self, node: str, positions: Any) -> Any:
        """Return the shares whose numbers have these positions."""
        at = np.searchsorted(self.begins[node], positions >> self.block_bits, side="right") - 1
        return self.numbers[node][np.maximum(at, 0)]


def judge_share(judging: Judging, key: tuple[Any, ...], pieces: pa.Table) -> pa.Table:
    """Judge the pieces of a share: writes its part of the tables, and returns rows of FACTS."""
    share = key[0].as_py()
    nodes = list(_judged(judging, share, pieces))
    rows = pa.concat_tables(each.judged.rows for each in nodes)
    found = found_in(rows)
    for name, table in (("audit", rows), ("found", found)):
        if table.num_rows:
            judging.target.put_table(f"{judging.directory}/{name}/part-{share:06}.parquet", table)
    facts = [*_counts(rows, found, judging.shown)]
    for each in nodes:
        facts += _of_node(judging, each)
    if judging.keeping is not None:
        facts += _kept(judging, judging.keeping, share, nodes)
    kept_apart()
    return pa.Table.from_pylist([{**fact, "share": share} for fact in facts], FACTS)


def deliveries_in(judging: Judging, mixed: frozenset[Mixed], key: tuple[Any, ...], pieces: pa.Table) -> pa.Table:
    """Return the new deliveries of a share in some ranges of queues and boots: rows of FACTS."""
    share, facts = key[0].as_py(), list[dict[str, Any]]()
    for each in _judged(judging, share, pieces):
        found = each.judged.deliveries
        ranges = judging.ranges(each.name, found.position).tolist()
        columns = (column.tolist() for column in (found.place, found.boot, found.position, found.first))
        for number, place, boot, position, first in zip(ranges, *columns, strict=True):
            vhost, queue = each.places[place]
            if Mixed(each.name, vhost, queue, boot, number) in mixed:
                named = {"what": SPAN, "node": each.name, "vhost": vhost, "queue": queue, "moment": boot}
                facts.append({**named, "share": share, "range": number, "one": first, "two": position})
    return pa.Table.from_pylist(facts, FACTS)


def _judged(judging: Judging, share: int, pieces: pa.Table) -> Iterator[_NodeVerdicts]:
    """Judge the pieces of a share, and of copies elsewhere that are its guests, node by node."""
    batches = defaultdict[str, list[Reduced]](list)
    streams = defaultdict[str, dict[Place, list[bytes]]](lambda: defaultdict(list))
    for row in pieces.select(("node", "vhost", "queue", "copies", "messages")).to_pylist():
        place = row.pop("vhost"), row.pop("queue")
        if place == NO_QUEUE:
            batches[row["node"]].append(reduced_of(**row))
        else:
            streams[row["node"]][place].append(row["copies"])
    for name in sorted(batches):
        if name in streams:
            guests = guests_of(name, judging.ranges, streams[name])
            batches[name] = [judged_in(share, each, judging.ranges, guests) for each in batches[name]]
        others = [*judging.elsewhere.get((share, name), []), *judging.before.get(name, [])]
        node = share_of(judging.facts[name], batches.pop(name))
        node = node._replace(overtakers=_overtakers(node.places, others))
        yield _NodeVerdicts(node, judged(node))


def _overtakers(places: list[Place], others: list[Elsewhere]) -> Overtakers:
    if not others:
        return NOBODY
    numbers = {place: number for number, place in enumerate(places)}
    rows = [(numbers[each.place], *each[1:]) for each in others if each.place in numbers]
    return Overtakers(*np.array(rows, np.int64).reshape(-1, len(Overtakers._fields)).T)


def _counts(rows: pa.Table, found: pa.Table, shown: int) -> Iterator[dict[str, Any]]:
    for row in tally_of(rows).to_pylist():
        counts = {"name": row.pop("verdict"), "one": row.pop("copies"), "two": row.pop("violations")}
        yield {"what": TALLIED, **row, **counts}
    for row in causes_of(found).to_pylist():
        yield {"what": CAUSE, "name": row.pop("cause"), "one": row.pop("copies"), "two": 0, **row}
    if found.num_rows:
        yield {"what": SAMPLES, "rows": arrow_stream(samples_of(found, shown))}


def _of_node(judging: Judging, found: _NodeVerdicts) -> Iterator[dict[str, Any]]:
    for moment, copies in found.judged.in_doubt.items():
        if copies:
            yield {"what": DOUBT, "node": found.name, "moment": moment, "one": copies, "two": 0}
    for place in found.judged.ends.again.tolist():  # they were counted when they were forgotten
        vhost, queue = found.places[place]
        settled = {"what": TALLIED, "vhost": vhost, "queue": queue, "name": SETTLED}
        yield {**settled, "node": found.name, "one": -1, "two": 0}
    for name, count in found.judged.counts._asdict().items():
        yield {"what": MESSAGES, "node": found.name, "name": name, "one": count, "two": 0}
    yield from _spans(judging, found)


def _spans(judging: Judging, found: _NodeVerdicts) -> Iterator[dict[str, Any]]:
    delivered = found.judged.deliveries
    ranges = judging.ranges(found.name, delivered.position)
    groups = Groups(delivered.place, delivered.boot, ranges)
    rows = groups.order[groups.starts]
    columns = (
        delivered.place[rows],
        delivered.boot[rows],
        ranges[rows],
        groups.min(delivered.first[groups.order]),
        groups.max(delivered.last[groups.order]),
    )
    for place, boot, number, first, last in zip(*(column.tolist() for column in columns), strict=True):
        vhost, queue = found.places[place]
        span = {"moment": boot, "range": number, "one": first, "two": last}
        yield {"what": SPAN, "node": found.name, "vhost": vhost, "queue": queue, **span}


def _kept(judging: Judging, keeping: Keeping, share: int, nodes: Iterable[_NodeVerdicts]) -> Iterator[dict[str, Any]]:
    """Write the rows of messages that are not over; yields facts on the others."""
    written = list[pa.RecordBatch]()
    for node, found in nodes:
        numbers = open_numbers(node, found, keeping.limits[node.name])
        rest = rows_of(node, found, numbers)
        written.append(read_rows(node.name, ReducedPart([rest], None), judging.block_bits))
        yield from _closed(node, found, numbers, judged(share_of(judging.facts[node.name], [rest])).counts)
        moments = [rest.copies.column("first").to_numpy(), rest.messages.column("published").to_numpy(), numbers]
        known = np.concatenate(moments)
        if len(known) and known.min() < NEVER:
            yield {"what": OLDEST, "node": node.name, "one": int(known.min()) >> SEQ_BITS, "two": 0}
    name = f"{keeping.directory}/part-{share:06}.parquet"
    keeping.target.put_table(name, pa.Table.from_batches(written, READ))


def _closed(node: Node, found: Judged, numbers: Any, kept: Counts) -> Iterator[dict[str, Any]]:
    named = {"node": node.name, "two": 0}
    for row in tally_of(closed_rows(found, numbers)).to_pylist():
        counts = {"name": row.pop("verdict"), "one": row.pop("copies")}
        yield {"what": CLOSED_TALLY, **named, **counts, "vhost": row["vhost"], "queue": row["queue"]}
    for name, count in found.counts._asdict().items():
        yield {"what": CLOSED_MESSAGES, **named, "name": name, "one": count - getattr(kept, name)}
    for boot, number in highest_closed(node, found, numbers).items():
        yield {"what": CLOSED, **named, "moment": boot, "one": number}
    for late, deliveries in ((False, highest_deliveries(found, numbers)), (True, for_the_late(found))):
        for place, boot, position, first in zip(*(column.tolist() for column in deliveries), strict=True):
            vhost, queue = node.places[place]
            delivery = {"moment": boot, "one": first, "two": position, "name": LATE if late else None}
            yield {"what": OVERTAKER, **named, "vhost": vhost, "queue": queue, **delivery}
