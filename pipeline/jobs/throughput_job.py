"""The job `throughput`: what went through each queue in each minute, and how many messages were in it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as fn

from pipeline.audit.log_coverage import boots, each_once, gaps
from pipeline.jobs.audit_job import SHOWN_MAX, coverage
from pipeline.jobs.job_results import Run
from pipeline.minutes import between
from pipeline.spark.file_places import Place
from pipeline.throughput import COUNTS, NEEDED, in_all, throughput

JOB = "throughput"


class Traffic(NamedTuple):
    """What was counted: events of each kind in all, and the queues with the most published and delivered messages."""

    coverage: dict[str, Any]
    counts: dict[str, int]
    busiest: list[Row]


def run_throughput(
    events: DataFrame, place: Place, since: datetime | None = None, until: datetime | None = None
) -> Traffic:
    """Count what happened in the minutes from `since` to before `until`: the table throughput."""
    run = Run(place, JOB)
    unique = each_once(events.select(*NEEDED))
    known_boots = boots(unique).cache()
    missing = gaps(unique, known_boots).cache()
    rows = run.write("throughput", between(throughput(unique, known_boots, missing), since, until))
    read = coverage(known_boots.collect(), missing.collect())
    for each in (unique, known_boots, missing):
        each.unpersist()
    counts = rows.agg(*(fn.coalesce(fn.sum(name), fn.lit(0)).alias(name) for name in COUNTS)).first()
    assert counts is not None
    found = Traffic(read, counts.asDict(), in_all(rows).limit(SHOWN_MAX).collect())
    run.publish({**read, "counts": found.counts})
    return found
