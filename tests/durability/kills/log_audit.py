"""The audit of a campaign's log, and whether it agrees with the clients and with the oracle in SQL."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

from pipeline.audit.audit import audit, reduce
from pipeline.audit.log_coverage import END_OF_BOOT
from pipeline.event_parts import parts_of
from tests.durability.kills.audited import AuditedCampaign
from tests.durability.kills.observed_log import Comparison, Log
from tests.pipeline.oracle.sql_verdicts import differences, events_of, of_oracle, of_rules

PASSING = {"later.short", "later.dead", "later.full", "later.dropped", "later.due"}
"""Queues that messages leave or reach without anybody's doing."""


class Judgement(NamedTuple):
    """The audit's result: a row for each copy, and the gaps; and differences from the clients' observations."""

    rows: list[Any]
    gaps: list[Any]
    boots: list[Any]
    comparison: Comparison
    problems: list[str]

    @property
    def lost(self) -> list[Any]:
        """The copies that are said to be lost."""
        return [row for row in self.rows if row.verdict == "lost"]

    @property
    def violations(self) -> list[Any]:
        """The copies that did what must never happen."""
        return [row for row in self.rows if row.violations]


def judge(campaign: AuditedCampaign) -> Judgement:
    """Audit what is sealed of a log, and hold it against its clients' logs."""
    parts = parts_of(str(campaign.segments))
    found = audit(map(reduce, parts))
    rows = [SimpleNamespace(**row) for row in found.rows.to_pylist()]
    killed = {gap.boot for gap in found.gaps if gap.kind == END_OF_BOOT}
    comparison = Comparison(Log(campaign.events()), rows, killed)
    comparison.everything(campaign.connections)
    problems = [*comparison.problems, *(f"in doubt: {row}" for row in rows if row.verdict == "unknown")]
    problems += differences(of_oracle(events_of(parts)), of_rules(found))
    problems += [f"a kill leaves doubt: {gap}" for gap in found.gaps if gap.doubtful]
    return Judgement(rows, found.gaps, found.boots, comparison, problems)


def sound(judgement: Judgement) -> list[str]:
    """Return problems that a broker that keeps its promises never has."""
    return [str(row) for row in (*judgement.lost, *judgement.violations)] + judgement.problems


def figures(judgement: Judgement, campaign: AuditedCampaign) -> dict[str, Any]:
    """Return figures on what was compared."""
    size = sum(path.stat().st_size for path in campaign.segments.glob("*.events"))
    compared = vars(judgement.comparison.figures)
    return {
        "events": len(judgement.comparison.log.events),
        "log_bytes": size,
        "boots": len(judgement.boots),
        "gaps": len(judgement.gaps),
        "doubtful_gaps": sum(gap.doubtful for gap in judgement.gaps),
        **compared,
        "verdicts": dict(compared["verdicts"]),
    }
