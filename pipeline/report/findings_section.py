"""The sections of the report about the audit and dead letters."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.verdict_counts import causes_of
from pipeline.jobs.audit_job import ORDER
from pipeline.jobs.job_results import FinishedRun
from pipeline.jobs.timelines import cause
from pipeline.report.charts import Line, Time, amounts_chart
from pipeline.report.events_in_words import Step, steps
from pipeline.report.series import axis, laid_out

LISTED = 50
REASONS = {"rejected": 0, "expired": 2, "maxlen": 3, "delivery_limit": 1}
"""Reasons of dead letters, with the colours of their lines."""
SERVER_NAMED = ("amq.gen", "amq_")
"""Prefixes of queue names that brokers generate."""
Row = dict[str, Any]


class QueueLine(NamedTuple):
    """A line of the table of verdicts: a queue, or all queues with generated names."""

    node: str
    vhost: str | None
    queue: str | None
    queues: int
    verdicts: dict[str, int]
    violations: int

    @property
    def badness(self) -> tuple[int, int, int]:
        """Sort key: losses and violations, unknown copies, all copies."""
        return (
            self.violations + self.verdicts.get("lost", 0),
            self.verdicts.get("unknown", 0),
            sum(self.verdicts.values()),
        )


class Case(NamedTuple):
    """A finding of the audit: a copy and its steps."""

    row: Row
    steps: list[Step]


class Group(NamedTuple):
    """Findings of one queue and cause: their number, and some of them."""

    node: str
    vhost: str | None
    queue: str | None
    copies: int
    cases: list[Case]


class Cause(NamedTuple):
    """A cause of findings, with its queues, most copies first."""

    name: str
    groups: list[Group]

    @property
    def copies(self) -> int:
        """Findings in all queues."""
        return sum(group.copies for group in self.groups)


class Audit(NamedTuple):
    """Results of the job `audit`: copies by verdict, queues and causes, the worst first, boots and gaps."""

    run: FinishedRun
    verdicts: dict[str, int]
    violations: int
    queues: list[QueueLine]
    causes: list[Cause]
    boots: list[Row]
    gaps: list[Row]

    @property
    def messages(self) -> dict[str, int]:
        """Counts of messages that clients published: confirmed, returned, unroutable."""
        return dict(self.run.facts["messages"])

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
        """Upper bound of the rows of the table found."""
        return self.lost + self.violations

    @property
    def kills(self) -> int:
        """Boots that ended without a stop."""
        return sum(boot["end"] == "killed" for boot in self.boots)

    @property
    def stops(self) -> int:
        """Boots that ended in order."""
        return sum(boot["end"] == "stopped" for boot in self.boots)


class DeadLetters(NamedTuple):
    """Results of the job `dead-letters`: groups of those in the queue, counts by reason from the log, a chart."""

    run: FinishedRun
    groups: list[Row]
    reasons: dict[str, int]
    chart: str | None
    point_seconds: int


def audit(run: FinishedRun) -> Audit:
    """Read the results of the last audit."""
    verdicts = {verdict: run.facts["verdicts"][verdict] for verdict in ORDER if verdict in run.facts["verdicts"]}
    boots = [_boot(row) for row in run.table("boots").to_pylist()]
    gaps = sorted(run.table("gaps").to_pylist(), key=lambda gap: (not gap["doubtful"], gap["node"], gap["moment"]))
    return Audit(run, verdicts, run.facts["violations"], _queues(run.table("tally")), _causes(run, boots), boots, gaps)


def _boot(row: Row) -> Row:
    end = "stopped" if row["stopped"] is not None else "killed" if row["next"] is not None else "not ended in the log"
    return {**row, "end": end}


def _queues(tally: pa.Table) -> list[QueueLine]:
    lines: dict[tuple[str, str | None, str | None], QueueLine] = {}
    names: defaultdict[tuple[str, str | None, str | None], set[str]] = defaultdict(set)
    for row in tally.to_pylist():
        key = row["node"], row["vhost"], _folded(row["queue"])
        names[key].add(row["queue"])
        line = lines.setdefault(key, QueueLine(*key, 0, {}, 0))
        line.verdicts[row["verdict"]] = line.verdicts.get(row["verdict"], 0) + row["copies"]
        lines[key] = line._replace(violations=line.violations + row["violations"])
    counted = [line._replace(queues=len(names[key] - {None})) for key, line in lines.items()]
    return sorted(counted, key=lambda line: ([-each for each in line.badness], str(line[:3])))


def _folded(queue: str | None) -> str | None:
    """Return a queue's name; PREFIX… for a generated one."""
    prefix = next((each for each in SERVER_NAMED if (queue or "").startswith(each)), None)
    return queue if prefix is None else f"{prefix}…"


def _causes(run: FinishedRun, boots: list[Row]) -> list[Cause]:
    """Group the findings by cause and queue: violations before losses."""
    events: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for event in run.table("timelines").to_pylist():
        events[event["node"], event["vhost"], event["queue"], event["position"]].append(event)
    found: defaultdict[str, dict[tuple[str, str | None, str | None], Group]] = defaultdict(dict)
    for row in _counts(run):
        place, groups = (row["node"], row["vhost"], _folded(row["queue"])), found[row["cause"]]
        group = groups.setdefault(place, Group(*place, 0, []))
        groups[place] = group._replace(copies=group.copies + row["copies"])
    # Findings may be many: those are read whose events are shown.
    places = [key[3] for key in events]
    for row in run.table("found", pc.field("position").isin(places) | pc.field("msg_id").isin(places)).to_pylist():
        at = row["msg_id"] if row["queue"] is None else row["position"]
        mine = events.get((row["node"], row["vhost"], row["queue"], at))
        if mine:
            place = row["node"], row["vhost"], _folded(row["queue"])
            found[cause(row)][place].cases.append(Case(row, steps(row, mine, boots)))
    causes = [Cause(name, sorted(groups.values(), key=_most)) for name, groups in found.items()]
    return sorted(causes, key=lambda cause: (cause.name == "lost", -cause.copies))


def _counts(run: FinishedRun) -> list[Row]:
    """Findings by queue and cause."""
    rows = run.table("causes") if "causes" in run.tables else causes_of(run.table("found"))
    return list(rows.to_pylist())


def _most(group: Group) -> tuple[int, str]:
    return -group.copies, str(group[:3])


def dead_letters(run: FinishedRun) -> DeadLetters:
    """Read the results of the last job `dead-letters`; rates only if it had an event log."""
    order = [("messages", "descending"), ("reason", "ascending"), ("death_queue", "ascending")]
    groups = run.table("dead_letters").sort_by(order).slice(0, LISTED).to_pylist()
    if "dead_letter_rates" not in run.tables:
        return DeadLetters(run, groups, {}, None, 1)
    rates = run.table("dead_letter_rates")
    by_reason = rates.group_by("reason").aggregate([("messages", "sum")]).to_pylist()
    counted = {row["reason"]: row["messages_sum"] for row in by_reason}
    return DeadLetters(run, groups, counted, *_rates(rates))


def _rates(rates: pa.Table) -> tuple[str | None, int]:
    if not rates.num_rows:
        return None, 60
    ends = pc.min_max(rates.column("minute")).as_py()
    along = axis(int(ends["min"].timestamp()), int(ends["max"].timestamp()), 60)
    begin, lines = int(along.begin.timestamp()), []
    rows = rates.to_pylist()
    for reason, colour in REASONS.items():
        counts: dict[int, float | None] = {}
        for row in rows:
            if row["reason"] == reason:
                place = (int(row["minute"].timestamp()) - begin) // along.seconds
                counts[place] = (counts.get(place) or 0) + row["messages"] * 60 / along.seconds
        if counts:
            lines.append(Line(laid_out(counts, along.points, missing=0), colour, reason.replace("_", " ")))
    return amounts_chart(Time(along), lines), along.seconds
