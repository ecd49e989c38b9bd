"""What the report says of the audit and of dead letters."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Row
from pyspark.sql import functions as fn

from pipeline.audit.audit_findings import ORDER, worst_first
from pipeline.jobs.job_results import FinishedRun
from pipeline.report.charts import Line, amounts_chart
from pipeline.report.series import axis, laid_out

LISTED = 50
REASONS = {"rejected": 0, "expired": 2, "maxlen": 3, "delivery_limit": 1}
"""Why messages die, with the colours of their lines."""


class Audit(NamedTuple):
    """What the job `audit` has left: verdicts with their copies, some of what was found, gaps."""

    run: FinishedRun
    verdicts: dict[str, int]
    violations: int
    found: list[Row]
    gaps: list[Row]

    @property
    def lost(self) -> int:
        """Copies of confirmed messages that are gone."""
        return self.verdicts.get("lost", 0)

    @property
    def unknown(self) -> int:
        """Copies of which the log does not say enough."""
        return self.verdicts.get("unknown", 0)

    @property
    def wrong(self) -> int:
        """How many rows of the table found there are at most."""
        return self.lost + self.violations


class DeadLetters(NamedTuple):
    """What the job `dead-letters` has left: groups of those in the queue, how many the log has by reason, a chart."""

    run: FinishedRun
    groups: list[Row]
    reasons: dict[str, int]
    chart: str | None
    point_minutes: int


def audit(run: FinishedRun) -> Audit:
    """What the last audit found."""
    verdicts = {verdict: run.facts["verdicts"][verdict] for verdict in ORDER if verdict in run.facts["verdicts"]}
    wrong = worst_first(run.table("found"))
    gaps = run.table("gaps").orderBy(fn.desc("doubtful"), "node", "moment")
    return Audit(run, verdicts, run.facts["violations"], wrong.limit(LISTED).collect(), gaps.limit(LISTED).collect())


def dead_letters(run: FinishedRun) -> DeadLetters:
    """Why messages lay in the queue that was looked at last; rates, if an event log was given."""
    groups = run.table("dead_letters").orderBy(fn.desc("messages"), "reason", "death_queue").limit(LISTED).collect()
    if "dead_letter_rates" not in run.tables:
        return DeadLetters(run, groups, {}, None, 1)
    rates = run.table("dead_letter_rates")
    by_reason = rates.groupBy("reason").agg(fn.sum("messages").alias("messages")).collect()
    minutes = rates.groupBy(fn.unix_seconds("minute").alias("second"), "reason").agg(fn.sum("messages").alias("n"))
    counted = {row.reason: row.messages for row in by_reason}
    return DeadLetters(run, groups, counted, *_rates(minutes.orderBy("second").collect()))


def _rates(minutes: list[Row]) -> tuple[str | None, int]:
    if not minutes:
        return None, 1
    along = axis(minutes[0].second, minutes[-1].second)
    begin, lines = int(along.begin.timestamp()), []
    for reason, colour in REASONS.items():
        counts: dict[int, float | None] = {}
        for row in minutes:
            if row.reason == reason:
                place = (row.second - begin) // along.seconds
                counts[place] = (counts.get(place) or 0) + row.n / along.minutes
        if counts:
            lines.append(Line(laid_out(counts, along.points, missing=0), colour))
    return amounts_chart(along, lines), along.minutes
