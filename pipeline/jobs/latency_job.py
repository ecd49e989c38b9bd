"""The job `latency`: how long messages waited, by queue and minute."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as fn

from pipeline.audit.log_coverage import boots, each_once, gaps
from pipeline.audit.verdicts import QUEUE
from pipeline.jobs.audit_job import SHOWN_MAX, coverage
from pipeline.jobs.job_results import Run
from pipeline.latency import NEEDED, STAGES, durations, latency, latency_in_all
from pipeline.minutes import between
from pipeline.spark.file_places import Place

JOB = "latency"


class Waits(NamedTuple):
    """What was measured: `busiest`, the queues with the most durations, stage by stage; how many durations there are,
    and how many the clock has spoiled.
    """

    coverage: dict[str, Any]
    durations: int
    negative: int
    busiest: list[Row]


def run_latency(events: DataFrame, place: Place, since: datetime | None = None, until: datetime | None = None) -> Waits:
    """Measure what ended in the minutes from `since` to before `until`: the tables latency and latency_in_all."""
    run = Run(place, JOB)
    unique = each_once(events.select(*NEEDED))
    known_boots = boots(unique).cache()
    measured = between(durations(unique), since, until).persist()
    run.write("latency", latency(measured))
    in_all = run.write("latency_in_all", latency_in_all(measured), small=True)
    read = coverage(known_boots.collect(), gaps(unique, known_boots).collect())
    for each in (unique, known_boots, measured):
        each.unpersist()
    counts = in_all.agg(fn.sum("n").alias("n"), fn.sum("negative").alias("negative")).first()
    assert counts is not None
    found = Waits(read, counts.n or 0, counts.negative or 0, _busiest(in_all))
    run.publish({**read, "durations": found.durations, "negative": found.negative})
    return found


def _busiest(in_all: DataFrame) -> list[Row]:
    of_queue = fn.sum("n").over(Window.partitionBy(*QUEUE))
    rows = in_all.withColumn("of_queue", of_queue).orderBy(fn.desc("of_queue"), *QUEUE)
    found = rows.drop("of_queue").limit(SHOWN_MAX * len(STAGES)).collect()
    order = {queue: place for place, queue in enumerate(dict.fromkeys(map(_queue, found)))}
    shown = [row for row in found if order[_queue(row)] < SHOWN_MAX]
    return sorted(shown, key=lambda row: (order[_queue(row)], STAGES.index(row.stage)))


def _queue(row: Row) -> tuple[str, ...]:
    return row.node, row.vhost, row.queue
