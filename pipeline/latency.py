"""Latency of messages: publish to confirm, publish to delivery, delivery to acknowledgement.

A duration belongs to the bin of the later of its two events, so a bin that is over never changes. Durations are
differences of the machine's clock, also across a restart. If the clock was set back in between, they cannot be measured
and count as negative, not as a duration.

- publish_to_confirm counts for each queue that the message reached, and without a queue if it reached none. Dead
  letters and messages whose delay is over have no confirm.
- publish_to_deliver ends with the first delivery out of a queue, which is not marked as redelivered. For a message that
  moved to the end of a quorum queue that was before its move.
- deliver_to_ack begins with the delivery that is acknowledged: the last one before, of the same boot, unless the
  message came back meanwhile. It is not measured for automatic acknowledgements, nor for streams, which deliver one
  position to many.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from leveret_events.segment_blocks import OFFSETS_END
from pipeline.audit.reduction import CODES, Groups
from pipeline.packed_events import QueueEvents, between, table, times

STAGES = ("publish_to_confirm", "publish_to_deliver", "deliver_to_ack")
PERCENTILES = (50, 95, 99)
"""By nearest rank: each is a duration that occurred."""

_COMMON = [("stage", pa.string()), ("n", pa.int64()), ("negative", pa.int64())]
_SPREAD = [(f"{name}_ms", pa.float64()) for name in ("p50", "p95", "p99", "max")]
_QUEUE = [("node", pa.string()), ("vhost", pa.string()), ("queue", pa.string())]
IN_ALL = pa.schema([*_QUEUE, *_COMMON, *_SPREAD])
BY_BIN = pa.schema([*_QUEUE, ("begin", pa.timestamp("us", "UTC")), *_COMMON, *_SPREAD])


class Durations(NamedTuple):
    """Durations of a node in microseconds, negative if the clock was set back, each with its end."""

    events: QueueEvents
    place: Any
    stage: Any
    ended: Any
    us: Any

    @property
    def bin(self) -> Any:
        """The bins in which they end."""
        return self.ended // self.events.width

    def between(self, since: int | None, until: int | None) -> Durations:
        """Select those that end in the bins from that of `since` to before `until`, in microseconds."""
        chosen = between(self.bin * self.events.width, self.events.width, since, until)
        return Durations(self.events, *(each[chosen] for each in self[1:]))


def durations(events: QueueEvents) -> Durations:
    """Measure all durations of a node."""
    published = _Published(events)
    parts = [published.to_confirm(), *_of_copies(events, published)]
    stage = np.concatenate([np.full(len(part[0]), at, np.int8) for at, part in enumerate(parts)])
    place, began, ended = (np.concatenate([part[at] for part in parts]) for at in range(3))
    return Durations(events, place, stage, ended, ended - began)


def latency(measured: Iterable[Durations]) -> pa.Table:
    """Compute by queue and bin: node, vhost, queue, begin, stage, n, negative, p50_ms, p95_ms, p99_ms, max_ms."""
    return pa.concat_tables([BY_BIN.empty_table(), *(_spread(each, BY_BIN, each.bin) for each in measured)])


def latency_in_all(measured: Iterable[Durations]) -> pa.Table:
    """Summarize durations by queue, over all bins."""
    rows = (_spread(each, IN_ALL, np.zeros_like(each.us)) for each in measured)
    return pa.concat_tables([IN_ALL.empty_table(), *rows])


def _spread(measured: Durations, schema: pa.Schema, by: Any) -> pa.Table:
    """Compute percentiles of durations. Negative ones are counted, and in no percentile."""
    groups = Groups(measured.place, by, measured.stage)
    order = groups.order[np.lexsort((measured.us[groups.order], groups.of_rows))]
    us, first = measured.us[order], order[groups.starts]
    negative = groups.sum(us < 0)
    size = np.diff(np.append(groups.starts, len(us)))
    n = size - negative
    found = {
        **measured.events.names(measured.place[first]),
        "begin": times(by[first] * measured.events.width),
        "stage": pa.array(STAGES).take(pa.array(measured.stage[first])),
        "n": n,
        "negative": negative,
    }
    for name, percent in (*((f"p{each}", each) for each in PERCENTILES), ("max", 100)):
        rank = -(-n * percent // 100)  # rounded up
        at = groups.starts + negative + np.maximum(rank, 1) - 1
        found[f"{name}_ms"] = pa.array(us[np.minimum(at, len(us) - 1)] / 1000, mask=n == 0) if len(us) else pa.nulls(0)
    return table(found, schema)


class _Published:
    """Messages with a known publish, by their numbers."""

    def __init__(self, events: QueueEvents) -> None:
        self._events = events
        self._routes = np.flatnonzero(events.of("route"))
        rows = np.flatnonzero(events.of("publish"))
        order = rows[np.argsort(events.msg_id[rows], kind="stable")]
        first = np.flatnonzero(np.diff(events.msg_id[order], prepend=-2) != 0)
        self._row = order[first]
        self._number = events.msg_id[self._row]

    def began(self, msg_id: Any) -> tuple[Any, Any]:
        """Mask of known messages, and the times of their publishes."""
        at = np.searchsorted(self._number, msg_id)
        known = at < len(self._number)
        known[known] = self._number[at[known]] == msg_id[known]
        return known, self._events.us[self._row[at[known]]]

    def to_confirm(self) -> tuple[Any, Any, Any]:
        """Place, begin and end from publish to confirm: once for each queue, once (place -1) without a queue."""
        events = self._events
        confirms = np.flatnonzero(events.of("confirm"))
        _, first = np.unique(events.msg_id[confirms], return_index=True)
        confirms = confirms[first]
        known, began = self.began(events.msg_id[confirms])
        confirms = confirms[known]
        number, place = self._reached()
        begin, end = (np.searchsorted(number, events.msg_id[confirms], side=side) for side in ("left", "right"))
        copies = np.maximum(end - begin, 1)
        of = np.repeat(np.arange(len(confirms)), copies)
        at = np.repeat(begin, copies) + np.arange(len(of)) - np.repeat(np.cumsum(copies) - copies, copies)
        places = np.where((end > begin)[of], np.append(place, -1)[np.minimum(at, len(place))], -1)
        return places, began[of], events.us[confirms[of]]

    def _reached(self) -> tuple[Any, Any]:
        """Message and queue of each route, distinct, sorted by message."""
        number, place = self._events.msg_id[self._routes], self._events.place[self._routes]
        groups = Groups(number, place)
        first = groups.order[groups.starts]
        return number[first], place[first]


def _of_copies(events: QueueEvents, published: _Published) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Place, begin and end from publish to first delivery, and from delivery to acknowledgement."""
    rows = np.flatnonzero(events.of("route", "deliver", "requeue", "ack"))
    groups = Groups(events.place[rows], events.position[rows])
    rows = rows[groups.order]
    kind = events.kind[rows]
    route = _before(groups, kind == CODES["route"])
    out = _before(groups, (kind == CODES["deliver"]) | (kind == CODES["requeue"]))
    # A position of a stream is reused after a crash or a deletion: events before the route are of another message.
    first = np.flatnonzero((kind == CODES["deliver"]) & ~events.redelivered[rows] & (route >= 0) & (out < route))
    known, began = published.began(events.msg_id[rows[route[first]]])
    delivered = rows[first[known]]
    acked = np.flatnonzero(
        (kind == CODES["ack"]) & ~events.noted[rows] & (events.position[rows] >= OFFSETS_END) & (out >= 0)
    )
    given = rows[out[acked]]
    same = (events.kind[given] == CODES["deliver"]) & (events.boot[given] == events.boot[rows[acked]])
    given, acks = given[same], rows[acked[same]]
    return (
        (events.place[delivered], began, events.us[delivered]),
        (events.place[acks], events.us[given], events.us[acks]),
    )


def _before(groups: Groups, chosen: Any) -> Any:
    """Find for each row the last chosen one before it in its group; -1: none."""
    last = np.maximum.accumulate(np.where(chosen, np.arange(len(chosen)), -1))
    before = np.append(-1, last)[: len(chosen)]
    return np.where(before >= groups.starts[groups.of_rows], before, -1) if len(groups) else before
