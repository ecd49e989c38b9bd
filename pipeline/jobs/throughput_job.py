"""The job `throughput`: what went through each queue in each bin, and how many messages were in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow.compute as pc

from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.audit_job import SHOWN_MAX
from pipeline.jobs.engines import Engine
from pipeline.jobs.job_results import Run, coverage
from pipeline.packed_events import SECOND, between, merged, micros, packed
from pipeline.throughput import COUNTS, in_all, throughput

JOB = "throughput"


class Traffic(NamedTuple):
    """Result: totals by kind of event, and the queues with most published and delivered messages."""

    coverage: dict[str, Any]
    counts: dict[str, int]
    busiest: list[dict[str, Any]]


def run_throughput(
    read: Engine, parts: Sequence[Part], target: Target, since: datetime | None = None, until: datetime | None = None
) -> Traffic:
    """Count what happened in the bins from `since` to before `until`: the table throughput."""
    run = Run(target, JOB)
    nodes = merged(read(packed, parts))
    rows = throughput(nodes)
    width = nodes[0].width if nodes else SECOND
    rows = rows.filter(between(rows.column("begin").cast("int64").to_numpy(), width, micros(since), micros(until)))
    run.write("throughput", rows)
    boots, gaps = run.write_coverage(node.coverage for node in nodes)
    counts = {name: pc.sum(rows.column(name)).as_py() or 0 for name in COUNTS}
    found = Traffic(coverage(boots, gaps), counts, in_all(rows).slice(0, SHOWN_MAX).to_pylist())
    run.publish({**found.coverage, "bin_seconds": width // SECOND, "counts": found.counts})
    return found
