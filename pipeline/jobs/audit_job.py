"""The job `audit`: a verdict on every copy of every message.

A job may be run again at any time: its results replace those of the last run, in one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow.compute as pc

from pipeline.audit.audit import audit, reduce
from pipeline.audit.log_coverage import Coverage
from pipeline.audit.verdict_counts import causes_of, found_in, tally_of
from pipeline.audit.verdict_table import SCHEMA
from pipeline.event_parts import Part
from pipeline.file_target import Target
from pipeline.jobs.engines import Engine, SparkEngine, shared_out
from pipeline.jobs.job_results import Run, coverage, last_run
from pipeline.jobs.timelines import timelines
from pipeline.spark_audit.judgement import Outcome, Tables, judged_by_spark
from pipeline.spark_audit.kept_state import Kept, kept_since

SHOWN_MAX = 20
"""Findings that are shown."""
ORDER = ("lost", "unknown", "not confirmed", "not kept", "queued", "settled")
"""Verdicts, the worst first."""


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


def run_audit(read: Engine, parts: Sequence[Part], target: Target, *, since_last: bool = False) -> Audited:
    """Judge every copy of every message: the tables audit, tally, found, causes, timelines, gaps and boots.

    `since_last`: of what an earlier such run has read, its state is read; the table `audit` has the copies whose
    messages were not over before. That is for Spark.
    """
    run, kept = Run(target, "audit"), None
    if since_last:
        last = last_run(target, "audit")
        kept = kept_since(target, None if last is None else last.directory, run.directory)
    outcome = _by_spark(read, parts, run, kept) if isinstance(read, SparkEngine) else _here(read, parts, run)
    run.write_coverage([Coverage(outcome.boots, outcome.gaps)], outcome.in_doubt)
    run.write("tally", outcome.tally)
    run.write("causes", outcome.causes)
    run.write("timelines", timelines(read, parts, outcome.found))
    counts = Counter[str]()
    for verdict, copies in zip(
        *(outcome.tally.column(name).to_pylist() for name in ("verdict", "copies")), strict=True
    ):
        counts[verdict] += copies
    summary = Audited(
        coverage(outcome.boots, outcome.gaps),
        {verdict: counts[verdict] for verdict in ORDER if verdict in counts},
        pc.sum(outcome.tally.column("violations")).as_py() or 0,
        outcome.counts._asdict(),
        outcome.found.slice(0, SHOWN_MAX).to_pylist(),
        [{**gap._asdict(), "in_doubt": doubts} for gap, doubts in zip(outcome.gaps, outcome.in_doubt, strict=True)],
    )
    facts = {"verdicts": summary.verdicts, "violations": summary.violations, "messages": summary.messages}
    run.publish({**summary.coverage, **facts})
    if kept is not None:
        kept.tidy()
    return summary


def _here(read: Engine, parts: Sequence[Part], run: Run) -> Outcome:
    """Judge in this process."""
    rows, boots, gaps, in_doubt, messages = audit(read(reduce, parts))
    found = found_in(rows)
    run.write("audit", rows)
    run.write("found", found)
    return Outcome(boots, gaps, in_doubt, messages, tally_of(rows), causes_of(found), found)


def _by_spark(read: SparkEngine, parts: Sequence[Part], run: Run, kept: Kept | None) -> Outcome:
    """Judge in Spark's tasks, which write the rows."""
    tables = Tables(run.target, run.directory, SHOWN_MAX)
    new = parts if kept is None else kept.new(parts)
    outcome = judged_by_spark(read.spark, shared_out(new), tables, kept=kept)
    if kept is not None:
        kept.save(run.directory, new, outcome.carried)
    for table in ("audit", "found"):
        run.written(table, SCHEMA)
    return outcome
