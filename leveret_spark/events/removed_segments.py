"""Segments that retention removed before a query has read them.

A broker removes the oldest segments first. So nothing is missing behind a segment that is still there, nor where the
next one goes on with the next event. A new boot's first event tells how far the boot before it had come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from leveret_events.segment_names import SegmentName, parse_name
from leveret_spark.events.event_columns import read_segment
from leveret_spark.events.sealed_segments import Segments
from leveret_spark.option_errors import DataLossError

ADVICE = "failOnDataLoss = false continues without them"


def check_start(source: Segments, start: Mapping[str, str], found: Iterable[SegmentName]) -> None:
    """Check that `found`, ascending, goes on where each node was read up to. Raises DataLossError."""
    following: dict[str, SegmentName] = {}
    for name in found:
        following.setdefault(name.node, name)
    for node, first in following.items():
        last = parse_name(start.get(node, ""))
        if last is not None and not _follows(source, last, first):
            raise DataLossError(
                f"event log of {node!r}: events behind segment {last} were removed before they were read; the oldest"
                f" segment is {first}; {ADVICE}"
            )


def check_end(start: Mapping[str, str], end: Mapping[str, str], found: Iterable[SegmentName]) -> None:
    """Check that a batch that was planned still has its last segments. Raises DataLossError."""
    there = {str(name) for name in found}
    for node, last in end.items():
        if last != start.get(node) and last not in there:
            raise DataLossError(
                f"event log of {node!r}: segment {last}, to be read up to, was removed before it was read; {ADVICE}"
            )


def _follows(source: Segments, last: SegmentName, first: SegmentName) -> bool:
    """True if no events are known to have been between two segments."""
    if (first.boot, first.first) == (last.boot, last.last + 1):
        return True
    try:
        source.size(last)
    except FileNotFoundError:
        return first.first == 1 and _previous(source, first) == (last.boot, last.last)
    return True


def _previous(source: Segments, name: SegmentName) -> tuple[int, int] | None:
    """The boot before that of a segment, and its last event; None where the segment does not tell."""
    event = next(read_segment(name, source.read(name)), None)
    if event is None or event.kind != "boot":
        return None
    told = json.loads(event.detail or "{}")
    return int(told.get("previous_boot", 0)), int(told.get("previous_last", 0))
