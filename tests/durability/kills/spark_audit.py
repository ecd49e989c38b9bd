"""The audit of a campaign's log by Spark, and whether it agrees with the clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions as fn

from pipeline.audit.log_coverage import SEQ_BITS, boots, deduplicated, gaps
from pipeline.audit.verdicts import judged
from tests.durability.kills.audited import AuditedCampaign
from tests.durability.kills.observed_log import Comparison, Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSING = {"later.short", "later.dead", "later.full", "later.dropped", "later.due"}
"""Queues that messages leave or reach without anybody's doing."""


class Judgement(NamedTuple):
    """What the audit says: a row for each copy, and the gaps; what was wrong when it was held against the clients."""

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


def judge(spark: SparkSession, campaigns: Mapping[str, AuditedCampaign]) -> dict[str, Judgement]:
    """Audit what is sealed of the logs, all in one, and hold each against its clients' logs."""
    events = None
    for name, campaign in campaigns.items():
        read = spark.read.format("leveret-events").load(str(campaign.segments)).withColumn("node", fn.lit(name))
        events = read if events is None else events.unionByName(read)
    assert events is not None
    known = deduplicated(events).cache()
    lives = boots(known).cache()
    missing = gaps(known, lives).cache()
    rows, holes = judged(known, lives, missing).collect(), missing.orderBy("boot", "after").collect()
    all_boots = lives.orderBy("boot").collect()
    for each in (known, lives, missing):
        each.unpersist()
    return {
        name: _judged(campaign, *([row for row in told if row.node == name] for told in (rows, holes, all_boots)))
        for name, campaign in campaigns.items()
    }


def _judged(campaign: AuditedCampaign, rows: list[Any], missing: list[Any], boots: list[Any]) -> Judgement:
    torn = {gap.boot: gap.doubtful for gap in missing if gap.kind == "end of a boot"}
    comparison = Comparison(Log(campaign.events()), rows, torn)
    comparison.everything(campaign.connections)
    problems = [*comparison.problems, *_doubts(rows, missing)]
    problems += [f"events are missing: {gap}" for gap in missing if gap.kind == "events not written"]
    return Judgement(rows, missing, boots, comparison, problems)


def sound(judgement: Judgement) -> list[str]:
    """What a broker that keeps its promises must not show."""
    return [str(row) for row in (*judgement.lost, *judgement.violations)] + judgement.problems


def _doubts(rows: list[Any], missing: list[Any]) -> Iterator[str]:
    """What is unknown was heard of before a gap that may hold its end; and nothing is lost behind such a gap alone."""
    doubtful = [gap.moment for gap in missing if gap.doubtful]
    for row in rows:
        if row.verdict == "unknown" and not any(gap >= row.boots[-1] << SEQ_BITS for gap in doubtful):
            yield f"in doubt, and no gap follows: {row}"


def figures(judgement: Judgement, campaign: AuditedCampaign) -> dict[str, Any]:
    """What was compared, in numbers."""
    doubtful = sum(gap.doubtful for gap in judgement.gaps)
    size = sum(path.stat().st_size for path in campaign.segments.glob("*.events"))
    compared = vars(judgement.comparison.figures)
    return {
        "events": len(judgement.comparison.log.events),
        "log_bytes": size,
        "boots": len(judgement.boots),
        "gaps": len(judgement.gaps),
        "doubtful_gaps": doubtful,
        **compared,
        "verdicts": dict(compared["verdicts"]),
    }
