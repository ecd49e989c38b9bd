"""The job `audit`: a verdict on every copy of every message.

A job may be run again at any time: its results replace those of the last run, in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.audit import audit, reduce
from pipeline.audit.log_coverage import Coverage
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.engines import Engine
from pipeline.jobs.job_results import Run, coverage
from pipeline.jobs.timelines import timelines

SHOWN_MAX = 20
"""Findings that are shown."""
ORDER = ("lost", "unknown", "not confirmed", "not kept", "queued", "settled")
"""Verdicts, the worst first."""
QUEUE = ("node", "vhost", "queue")


class Audited(NamedTuple):
    """Result of an audit: copies by verdict, the worst first; messages that clients published; some findings."""

    coverage: dict[str, Any]
    verdicts: dict[str, int]
    violations: int
    messages: dict[str, int]
    found: list[dict[str, Any]]
    gaps: list[dict[str, Any]]

    @property
    def clean(self) -> bool:
        """True without losses and violations."""
        return not self.violations and not self.verdicts.get("lost")


def run_audit(read: Engine, parts: Sequence[Part], target: Target) -> Audited:
    """Judge every copy of every message: the tables audit, tally, found, gaps and boots."""
    run = Run(target, "audit")
    rows, boots, gaps, in_doubt, messages = audit(read(reduce, parts))
    wrong = pc.greater(pc.list_value_length(rows.column("violations")), 0)
    found = _worst_first(rows.filter(pc.or_(wrong, pc.equal(rows.column("verdict"), "lost"))))
    tally = _tally(rows.append_column("wrong", wrong))
    run.write_coverage([Coverage(boots, gaps)], in_doubt)
    for name, table in (("audit", rows), ("tally", tally), ("found", found)):
        run.write(name, table)
    run.write("timelines", timelines(parts, found))
    counts = dict(zip(*(tally.group_by("verdict").aggregate([("copies", "sum")]).to_pydict().values()), strict=True))
    summary = Audited(
        coverage(boots, gaps),
        {verdict: counts[verdict] for verdict in ORDER if verdict in counts},
        pc.sum(wrong).as_py() or 0,
        messages._asdict(),
        found.slice(0, SHOWN_MAX).to_pylist(),
        [{**gap._asdict(), "in_doubt": doubts} for gap, doubts in zip(gaps, in_doubt, strict=True)],
    )
    facts = {"verdicts": summary.verdicts, "violations": summary.violations, "messages": summary.messages}
    run.publish({**summary.coverage, **facts})
    return summary


def _worst_first(found: pa.Table) -> pa.Table:
    """Sort findings: losses first, then by queue and position."""
    kept = found.append_column("kept", pc.not_equal(found.column("verdict"), "lost").cast(pa.int8()))
    order = ("kept", *QUEUE, "position")
    return kept.sort_by([(name, "ascending") for name in order]).drop_columns("kept")


def _tally(rows: pa.Table) -> pa.Table:
    """Count copies by verdict: node, vhost, queue, verdict, copies, violations."""
    counted = rows.set_column(rows.num_columns - 1, "wrong", rows.column("wrong").cast(pa.int64()))
    found = counted.group_by([*QUEUE, "verdict"]).aggregate([([], "count_all"), ("wrong", "sum")])
    return found.rename_columns([*QUEUE, "verdict", "copies", "violations"])
