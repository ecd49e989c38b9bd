"""The job `latency`: how long messages waited, by queue and bin of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.verdict_counts import QUEUE
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.audit_job import SHOWN_MAX
from pipeline.jobs.engines import Engine
from pipeline.jobs.job_results import Run, coverage
from pipeline.latency import STAGES, durations, latency, latency_in_all
from pipeline.packed_events import SECOND, merged, micros, packed

JOB = "latency"


class Waits(NamedTuple):
    """Result: number of durations and of negative ones, and the queues with most durations, stage by stage."""

    coverage: dict[str, Any]
    durations: int
    negative: int
    busiest: list[dict[str, Any]]


def run_latency(
    read: Engine, parts: Sequence[Part], target: Target, since: datetime | None = None, until: datetime | None = None
) -> Waits:
    """Measure durations that ended in the bins from `since` to before `until`: writes latency and latency_in_all."""
    run = Run(target, JOB)
    nodes = merged(read(packed, parts))
    width = nodes[0].width if nodes else SECOND
    measured = [durations(node).between(micros(since), micros(until)) for node in nodes]
    run.write("latency", latency(measured))
    in_all = latency_in_all(measured)
    run.write("latency_in_all", in_all)
    boots, gaps = run.write_coverage(node.coverage for node in nodes)
    found = Waits(
        coverage(boots, gaps),
        pc.sum(in_all.column("n")).as_py() or 0,
        pc.sum(in_all.column("negative")).as_py() or 0,
        _busiest(in_all),
    )
    facts = {"bin_seconds": width // SECOND, "durations": found.durations, "negative": found.negative}
    run.publish({**found.coverage, **facts})
    return found


def _busiest(in_all: pa.Table) -> list[dict[str, Any]]:
    """The rows of the queues with the most durations, stage by stage."""
    of_queues = in_all.group_by(list(QUEUE)).aggregate([("n", "sum")])
    names = of_queues.sort_by([("n_sum", "descending"), *((name, "ascending") for name in QUEUE)]).slice(0, SHOWN_MAX)
    order = {tuple(row[name] for name in QUEUE): place for place, row in enumerate(names.to_pylist())}
    rows = [row for row in in_all.to_pylist() if tuple(row[name] for name in QUEUE) in order]
    return sorted(rows, key=lambda row: (order[tuple(row[name] for name in QUEUE)], STAGES.index(row["stage"])))
