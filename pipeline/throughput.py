"""Throughput and depth: rates of each queue in each bin of time, and its messages at the end of the bin.

The depth of a queue is counted from the last event at which it was known: the start of a boot, whose events record all
messages; a purge, which records the unacknowledged ones and leaves no others; the deletion of the queue, or its first
declaration. A message of an earlier boot was there at the start if any event of this boot names it, even its end.
Unacknowledged messages count, and so do waiting dead letters.

`depth` is null until all messages of a start have been recorded, at the latest by an orderly stop; behind a doubtful
gap until the next such event; and for streams, which drop messages without events.

A bin, a minute or less, has a row if the queue had events in it; otherwise its depth is unchanged. If the clock was set
back, a bin that comes twice is one row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leveret_events.segment_blocks import OFFSETS_END
from pipeline.audit.reduction import CODES, ENDS, NEVER, SEQ_BITS, Groups, Sorted, is_one_of
from pipeline.packed_events import QueueEvents, table, times

COUNTED = {
    "delivered": "deliver",
    "acked": "ack",
    "requeued": "requeue",
    "rejected": "reject",
    "expired": "expire",
    "dropped": "drop",
    "dead_lettered": "deadletter",
}
"""Columns that count one kind of event."""

COUNTS = ("published", "bytes_in", "redelivered", *COUNTED)
OF_COPIES = (*ENDS, "route", "deliver", "requeue", "queued")
QUEUE = ("node", "vhost", "queue")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in QUEUE),
        ("begin", pa.timestamp("us", "UTC")),
        *((name, pa.int64()) for name in COUNTS),
        ("redelivery_rate", pa.float64()),
        ("depth", pa.int64()),
    ]
)


def throughput(nodes: Iterable[QueueEvents]) -> pa.Table:
    """Compute a row for each queue and bin: node, vhost, queue, begin, COUNTS, redelivery_rate, depth."""
    return pa.concat_tables([SCHEMA.empty_table(), *(_Traffic(events).table() for events in nodes)])


def in_all(rows: pa.Table) -> pa.Table:
    """Sum up by queue, over all bins, the busiest first: COUNTS, redelivery_rate, deepest, and last depth."""
    ordered = rows.sort_by([(name, "ascending") for name in (*QUEUE, "begin")])
    sums = ordered.group_by(list(QUEUE), use_threads=False).aggregate(
        [*((name, "sum") for name in COUNTS), ("depth", "max"), ("depth", "last")]
    )
    found = sums.rename_columns([*QUEUE, *COUNTS, "deepest", "depth"])
    found = found.append_column("redelivery_rate", _rate(found.column("redelivered"), found.column("delivered")))
    busy = pc.add(found.column("published"), found.column("delivered"))
    order = [("busy", "descending"), *((name, "ascending") for name in QUEUE)]
    return found.append_column("busy", busy).sort_by(order).drop_columns("busy")


class _Traffic:
    """Events of a node by queue, boot and bin, which are the keys of all arrays but those of events."""

    def __init__(self, events: QueueEvents) -> None:
        self._events = events
        routes = np.flatnonzero(events.of("route"))
        moves = routes[self._moves(routes)]
        rows = np.flatnonzero((events.place >= 0) & ~events.of("publish"))
        self._rows = np.concatenate([rows, moves])
        self._kind = np.append(events.kind[rows], np.zeros(len(moves), np.uint8))
        self._moved = np.append(np.zeros(len(rows), bool), np.ones(len(moves), bool))
        self._groups = Groups(events.place[self._rows], events.boot[self._rows], events.bin[self._rows])
        self._rows, self._kind = self._rows[self._groups.order], self._kind[self._groups.order]
        self._moved = self._moved[self._groups.order]
        first = self._rows[self._groups.starts]
        self._place, self._boot = events.place[first], events.boot[first]
        self._bin = events.bin[first]
        self._lives = Sorted(self._place, self._boot)
        """Groups of a queue in one boot: counting restarts with each."""

    def table(self) -> pa.Table:
        """Compute the rows of one node; several boots in one bin are one row."""
        counts, depth = self._counts(), self._depth()
        groups = Groups(self._place, self._bin, self._boot)
        whole = Groups(self._place[groups.order], self._bin[groups.order])
        last = groups.order[np.append(whole.starts[1:], len(groups.order))[: len(whole)] - 1]
        sums = {name: whole.total(values[groups.order]) for name, values in counts.items()}
        found = {
            **self._events.names(self._place[last]),
            "begin": times(self._bin[last] * self._events.width),
            **sums,
            "redelivery_rate": _rate(pa.array(sums["redelivered"]), pa.array(sums["delivered"])),
            "depth": pa.array(depth[last], mask=depth[last] < 0),
        }
        return table(found, SCHEMA)

    def _moves(self, routes: Any) -> Any:
        """Find the routes of messages that moved to the end of a quorum queue.

        Such a message was requeued at its position, had no end there, and got one new position. A dead letter waiting
        in its own queue names its old position too, but that has an end, or has moved before.
        """
        events = self._events
        place, number, position = events.place[routes], events.msg_id[routes], events.position[routes]
        again = np.flatnonzero((number != position) & (position >= OFFSETS_END))
        groups = Groups(place[again], number[again])
        first = again[groups.order[groups.starts]]
        keys = set(zip(place[first].tolist(), number[first].tolist(), strict=True))
        back, ended = (_named(events, kinds, keys) for kinds in (("requeue",), ENDS))
        moves = [at for at in first.tolist() if (int(place[at]), int(number[at])) in back - ended]
        return np.array(moves, np.int64)

    def _counts(self) -> dict[str, Any]:
        events, groups, kind = self._events, self._groups, self._kind
        came = np.where(kind == CODES["route"], 1, 0) - self._moved
        delivered = kind == CODES["deliver"]
        return {
            "published": groups.sum(came).astype(np.int64),
            "bytes_in": groups.total(came * self._sizes()),
            "redelivered": groups.sum(delivered & events.redelivered[self._rows]).astype(np.int64),
            **{name: groups.sum(kind == CODES[each]).astype(np.int64) for name, each in COUNTED.items()},
        }

    def _sizes(self) -> Any:
        """Sizes of the messages of events, 0 if unknown."""
        events = self._events
        published = np.flatnonzero(events.of("publish"))
        published = published[np.argsort(events.msg_id[published], kind="stable")]
        numbers = events.msg_id[published]
        at = np.searchsorted(numbers, events.msg_id[self._rows])
        known = np.append(numbers, -2)[at] == events.msg_id[self._rows]
        return np.where(known, np.append(events.size[published], 0)[at], 0).astype(np.int64)

    # Depths

    def _depth(self) -> Any:
        """Messages in the queue at the end of each bin; -1: unknown."""
        reset, kept = self._resets()
        moment, lives = self._events.moment[self._rows], self._lives
        step = np.where(self._kind == CODES["route"], 1, 0) - self._moved - is_one_of(self._kind, ENDS)
        net = self._groups.sum(np.where(moment > reset[self._groups.of_rows], step, 0))
        rows = np.arange(len(net))
        since = np.maximum.accumulate(np.maximum(np.where(reset >= 0, rows, -1), lives.starts[lives.of_rows]))
        total = np.append(0, np.cumsum(net))
        at_first = np.where(reset[since] >= 0, kept[since], self._held_over()[lives.of_rows])
        depth = at_first + total[rows + 1] - total[since]
        return np.where(self._known(reset[since]) & ~self._streams(), depth, -1)

    def _resets(self) -> tuple[Any, Any]:
        """Moment of the last event of each bin that sets the depth (-1: none), and the depth that it sets."""
        events = self._events
        later = np.flatnonzero(~events.of("boot", "declare", "bind"))
        boots, first = np.unique(events.boot[later], return_index=True)
        opened = dict(zip(boots.tolist(), events.moment[later[first]].tolist(), strict=True))
        kept = {
            each.moment: len(each.detail["kept"]) if each.kind == "purge" else 0
            for each in events.told
            # A queue declared before the first other event of a boot was recovered with its messages.
            if each.kind in ("purge", "delete")
            or (each.kind == "declare" and each.moment > opened.get(each.moment >> SEQ_BITS, NEVER))
        }
        moment = events.moment[self._rows]
        reset = self._groups.max(np.where(np.isin(moment, list(kept)), moment, -1))
        return reset, np.array([kept.get(each, 0) for each in reset.tolist()], np.int64)

    def _held_over(self) -> Any:
        """Messages of earlier boots in each queue at the start of each boot."""
        events = self._events
        rows = np.flatnonzero(
            events.of(*OF_COPIES) & (events.position >= OFFSETS_END) & (events.position >> SEQ_BITS < events.boot)
        )
        copies = Groups(events.place[rows], events.boot[rows], events.position[rows])
        first = rows[copies.order[copies.starts]]
        queues = Sorted(events.place[first], events.boot[first])
        keys = first[queues.starts]
        names = zip(events.place[keys].tolist(), events.boot[keys].tolist(), strict=True)
        counts = dict(zip(names, queues.sum(np.ones(len(first))).tolist(), strict=True))
        starts = self._lives.starts
        mine = zip(self._place[starts].tolist(), self._boot[starts].tolist(), strict=True)
        return np.array([counts.get(key, 0) for key in mine], np.int64)

    def _known(self, reset: Any) -> Any:
        """True if the depth at the end of the bin is known."""
        events, coverage = self._events, self._events.coverage
        ends = Groups(events.boot, events.bin)
        first = ends.order[ends.starts]
        bins = zip(events.boot[first].tolist(), events.bin[first].tolist(), strict=True)
        last = dict(zip(bins, ends.max(events.moment[ends.order]).tolist(), strict=True))
        end = np.array([last[key] for key in zip(self._boot.tolist(), self._bin.tolist(), strict=True)], np.int64)
        doubts = np.array(sorted(gap.moment for gap in coverage.gaps if gap.doubtful), np.int64)
        begin = np.where(reset >= 0, reset, self._boot << SEQ_BITS)
        doubtful = np.searchsorted(doubts, begin) < np.searchsorted(doubts, end, side="right")
        # A stop before the snapshot records all messages of the start that have not ended.
        recorded = {boot.boot: boot.snapshot or (boot.stopped if boot.complete else None) for boot in coverage.boots}
        by = np.array([recorded[boot] or NEVER for boot in self._boot.tolist()], np.int64)
        return ((reset >= 0) | (by <= end)) & ~doubtful

    def _streams(self) -> Any:
        """True for rows of streams."""
        events, lives = self._events, self._lives
        position = events.position[self._rows]
        declared = [each.moment for each in events.told if each.kind == "declare" and each.detail["type"] == "stream"]
        stream = ((position >= 0) & (position < OFFSETS_END)) | np.isin(events.moment[self._rows], declared)
        return lives.max(self._groups.max(stream))[lives.of_rows]


def _named(events: QueueEvents, kinds: tuple[str, ...], keys: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return those of some copies, by place and position, that have events of some kinds."""
    rows = np.flatnonzero(events.of(*kinds) & np.isin(events.position, [position for _, position in keys]))
    return keys & set(zip(events.place[rows].tolist(), events.position[rows].tolist(), strict=True))


def _rate(part: Any, whole: Any) -> pa.Array:
    whole = pc.if_else(pc.equal(whole, 0), pa.scalar(None, pa.int64()), whole)
    return pc.divide(pc.cast(part, pa.float64()), pc.cast(whole, pa.float64()))
