"""What the report says of queues: how long messages waited in them, and what went through.

The busiest are drawn, a few more are in tables, and all are in the Parquet tables: so the page stays small however many
queues there are. Where a point stands for several minutes, it shows the highest of them, and rates as their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as fn

from pipeline.jobs.job_results import FinishedRun
from pipeline.latency import STAGES
from pipeline.report.charts import Line, amounts_chart, durations_chart
from pipeline.report.series import Axis, axis, carried_on, laid_out
from pipeline.throughput import in_all

DRAWN = 6
LISTED = 50
NAME = ("node", "vhost", "queue")
ENDINGS = ("rejected", "expired", "dropped", "dead_lettered")
SPREAD = ("p99_ms", "p95_ms", "p50_ms")

Queue = tuple[str, str | None, str | None]
"""Node, virtual host and name; no name for what reached no queue."""


class Drawn(NamedTuple):
    """A queue's charts."""

    queue: Queue
    charts: list[str | None]


class Waits(NamedTuple):
    """Latencies: charts of the busiest queues, a line for each of some more, by stage."""

    run: FinishedRun
    queues: int
    drawn: list[Drawn]
    listed: list[tuple[Queue, dict[str, Row]]]
    point_minutes: int


class Traffic(NamedTuple):
    """Throughput: the same, and a line for each that has all counts."""

    run: FinishedRun
    queues: int
    drawn: list[Drawn]
    listed: list[Row]
    point_minutes: int

    @property
    def endings(self) -> list[str]:
        """The columns of ends that are not acknowledgements, where there are any."""
        return [name for name in ENDINGS if any(row[name] for row in self.listed)]


def waits(run: FinishedRun) -> Waits:
    """What the job `latency` has left."""
    table, overall = run.table("latency"), run.table("latency_in_all")
    of_queue = fn.sum("n").over(Window.partitionBy(*NAME))
    rows = overall.withColumn("of_queue", of_queue).orderBy(fn.desc("of_queue"), *NAME)
    listed = _by_queue(rows.limit(LISTED * len(STAGES)).collect(), lambda row: row.stage)[:LISTED]
    named = [queue for queue, _ in listed if queue[2] is not None][:DRAWN]
    along = _axis(table)
    highest = [fn.max(name).alias(name) for name in SPREAD]
    points = _points(table, named, along, highest, "stage")
    drawn = [Drawn(queue, [_spread(points, queue, stage, along) for stage in STAGES]) for queue in named]
    return Waits(run, _count(overall), drawn, listed, along.minutes)


def traffic(run: FinishedRun) -> Traffic:
    """What the job `throughput` has left."""
    table = run.table("throughput")
    listed = in_all(table).limit(LISTED).collect()
    named = [_queue(row) for row in listed[:DRAWN]]
    along = _axis(table)
    summed = [fn.sum(name).alias(name) for name in ("published", "delivered", "redelivered", "acked")]
    points = _points(table, named, along, [*summed, fn.max("depth").alias("depth")])
    seconds = _seconds(run, along)
    drawn = [Drawn(queue, _flow([row for row in points if _queue(row) == queue], along, seconds)) for queue in named]
    return Traffic(run, _count(table), drawn, listed, along.minutes)


def _spread(points: Iterable[Row], queue: Queue, stage: str, along: Axis) -> str | None:
    mine = [row for row in points if _queue(row) == queue and row.stage == stage]
    lines = [Line(laid_out({row.place: row[name] for row in mine}, along.points), at) for at, name in enumerate(SPREAD)]
    return durations_chart(along, lines) if mine else None


def _flow(mine: Sequence[Row], along: Axis, seconds: Sequence[float]) -> list[str | None]:
    """Rates, depth, and the share of redeliveries."""

    def rates(name: str) -> list[float | None]:
        return laid_out({row.place: row[name] / seconds[row.place] for row in mine}, along.points, missing=0)

    shown = [Line(rates("delivered"), 1, "area"), Line(rates("published"), 0), Line(rates("acked"), 2)]
    depths = carried_on({row.place: row.depth for row in mine}, along.points)
    again = {row.place: 100 * row.redelivered / row.delivered for row in mine if row.delivered}
    return [
        amounts_chart(along, shown, "/s"),
        amounts_chart(along, [Line(depths, 3, "steps")]) if any(depth is not None for depth in depths) else None,
        amounts_chart(along, [Line(laid_out(again, along.points), 2)], " %") if any(again.values()) else None,
    ]


def _seconds(run: FinishedRun, along: Axis) -> list[float]:
    """How many seconds of each point the log knows of: all, but for the first and the last."""
    first, last = (datetime.fromisoformat(run.facts[name] or "1970-01-01T00:00Z") for name in ("from", "until"))
    length = timedelta(minutes=along.minutes)
    known = (min(begin + length, last) - max(begin, first) for begin in along.times)
    return [max(each.total_seconds(), 1) for each in known]


def _points(table: DataFrame, queues: Sequence[Queue], along: Axis, values: Sequence[Column], *by: str) -> list[Row]:
    """Values of some queues along an axis."""
    named = fn.lit(False)
    for queue in queues:
        same = fn.lit(True)
        for column, value in zip(NAME, queue, strict=True):
            same = same & (fn.col(column) == value)
        named = named | same
    begin = int(along.begin.timestamp())
    place = fn.floor((fn.unix_seconds("minute") - begin) / along.seconds).cast("int").alias("place")
    return table.where(named).groupBy(*NAME, *by, place).agg(*values).orderBy("place").collect()


def _axis(table: DataFrame) -> Axis:
    """Over all minutes of a table; of an empty one, a point that means nothing."""
    ends = table.agg(fn.unix_seconds(fn.min("minute")).alias("first"), fn.unix_seconds(fn.max("minute")).alias("last"))
    found = ends.first()
    assert found is not None
    return axis(found.first or 0, found.last or 0)


def _by_queue(rows: Iterable[Row], key: Callable[[Row], Any]) -> list[tuple[Queue, dict[Any, Row]]]:
    found: dict[Queue, dict[Any, Row]] = {}
    for row in rows:
        found.setdefault(_queue(row), {})[key(row)] = row
    return list(found.items())


def _queue(row: Row) -> Queue:
    return row.node, row.vhost, row.queue


def _count(table: DataFrame) -> int:
    return table.where(fn.col("queue").isNotNull()).select(*NAME).distinct().count()
