"""The sections of the report about queues: latency and throughput.

The busiest queues are drawn, some more are in tables, and all are in the Parquet tables: so the page stays small for
any number of queues. A point that covers several bins shows their maximum, and of rates the mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.jobs.job_results import FinishedRun
from pipeline.latency import STAGES
from pipeline.report.charts import Line, Time, amounts_chart, durations_chart
from pipeline.report.series import axis, carried_on, laid_out, marks
from pipeline.throughput import in_all

DRAWN = 6
LISTED = 50
NAME = ("node", "vhost", "queue")
ENDINGS = ("rejected", "expired", "dropped", "dead_lettered")
SPREAD = {"p99_ms": Line((), 2, "p99"), "p95_ms": Line((), 0, "p95", "dashes"), "p50_ms": Line((), 3, "p50")}
"""Lines of the percentiles that are drawn."""

Row = dict[str, Any]
Queue = tuple[str, str | None, str | None]
"""Node, virtual host and name; no name for messages that reached no queue."""


class Drawn(NamedTuple):
    """A queue's charts."""

    queue: Queue
    charts: list[str | None]


class Waits(NamedTuple):
    """Latency: charts of the busiest queues, and a table of some more, by stage."""

    run: FinishedRun
    queues: int
    drawn: list[Drawn]
    listed: list[tuple[Queue, dict[str, Row]]]
    point_seconds: int


class Traffic(NamedTuple):
    """Throughput: charts of the busiest queues, and a table of some more, with all counts."""

    run: FinishedRun
    queues: int
    drawn: list[Drawn]
    listed: list[Row]
    point_seconds: int

    @property
    def endings(self) -> list[str]:
        """Columns of ends that are not acknowledgements, if there are any."""
        return [name for name in ENDINGS if any(row[name] for row in self.listed)]


def waits(run: FinishedRun) -> Waits:
    """Read the results of the job `latency`."""
    table, overall = run.table("latency"), run.table("latency_in_all")
    counts = overall.group_by(list(NAME)).aggregate([("n", "sum")])
    busiest = counts.sort_by([("n_sum", "descending"), *((name, "ascending") for name in NAME)]).slice(0, LISTED)
    stages: dict[Queue, dict[str, Row]] = {_queue(row): {} for row in busiest.to_pylist()}
    for row in overall.to_pylist():
        if _queue(row) in stages:
            stages[_queue(row)][row["stage"]] = row
    named = [queue for queue in stages if queue[2] is not None][:DRAWN]
    along = _time(run, table)
    points = _points(table, named, along)
    drawn = [Drawn(queue, [_spread(points[queue], stage, along) for stage in STAGES]) for queue in named]
    return Waits(run, _count(overall), drawn, list(stages.items()), along.axis.seconds)


def traffic(run: FinishedRun) -> Traffic:
    """Read the results of the job `throughput`."""
    table = run.table("throughput")
    listed = in_all(table).slice(0, LISTED).to_pylist()
    named = [_queue(row) for row in listed[:DRAWN]]
    along = _time(run, table)
    points, seconds = _points(table, named, along), _seconds(run, along)
    drawn = [Drawn(queue, _flow(points[queue], along, seconds)) for queue in named]
    return Traffic(run, _count(table), drawn, listed, along.axis.seconds)


def _spread(rows: Iterable[Row], stage: str, along: Time) -> str | None:
    mine = [row for row in rows if row["stage"] == stage]
    lines = []
    for name, look in SPREAD.items():
        highest: dict[int, float | None] = {}
        for row in mine:
            if row[name] is not None:
                highest[row["place"]] = max(highest.get(row["place"]) or 0, row[name])
        lines.append(look._replace(values=laid_out(highest, along.axis.points)))
    return durations_chart(along, lines) if mine else None


def _flow(rows: Sequence[Row], along: Time, seconds: Sequence[float]) -> list[str | None]:
    """Rates, depth, and the share of redeliveries."""
    sums: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    depths: dict[int, float | None] = {}
    for row in rows:
        for name in ("published", "delivered", "redelivered", "acked"):
            sums[name][row["place"]] += row[name]
        known = [each for each in (depths.get(row["place"]), row["depth"]) if each is not None]
        depths[row["place"]] = max(known, default=None)

    def rates(name: str) -> list[float | None]:
        return laid_out({at: value / seconds[at] for at, value in sums[name].items()}, along.axis.points, missing=0)

    shown = [
        Line(rates("delivered"), 1, "delivered", "area"),
        Line(rates("published"), 0, "published"),
        Line(rates("acked"), 2, "acked", "dashes"),
    ]
    held = carried_on(depths, along.axis.points)
    again = {at: 100 * sums["redelivered"][at] / value for at, value in sums["delivered"].items() if value}
    return [
        amounts_chart(along, shown, "/s"),
        amounts_chart(along, [Line(held, 3, "depth", "steps")]) if any(each is not None for each in held) else None,
        amounts_chart(along, [Line(laid_out(dict(again), along.axis.points), 2)], " %")
        if any(again.values())
        else None,
    ]


def _seconds(run: FinishedRun, along: Time) -> list[float]:
    """Seconds of each point that the log covers: all, except for the first and the last."""
    first, last = (datetime.fromisoformat(run.facts[name] or "1970-01-01T00:00Z") for name in ("from", "until"))
    length = timedelta(seconds=along.axis.seconds)
    known = (min(begin + length, last) - max(begin, first) for begin in along.axis.times)
    return [max(each.total_seconds(), 1) for each in known]


def _points(table: pa.Table, queues: Sequence[Queue], along: Time) -> dict[Queue, list[Row]]:
    """The rows of some queues, with their places on an axis."""
    found: dict[Queue, list[Row]] = {queue: [] for queue in queues}
    begin = int(along.axis.begin.timestamp())
    for row in table.filter(
        pc.is_in(table.column("queue"), pa.array([queue[2] for queue in queues], pa.string()))
    ).to_pylist():
        if _queue(row) in found:
            place = (int(row["begin"].timestamp()) - begin) // along.axis.seconds
            found[_queue(row)].append({**row, "place": place})
    return found


def _time(run: FinishedRun, table: pa.Table) -> Time:
    """Over all bins of a table; of an empty one, a point that means nothing."""
    ends = pc.min_max(table.column("begin")).as_py()
    first, last = (0 if ends[name] is None else int(ends[name].timestamp()) for name in ("min", "max"))
    befell = marks(run.table("boots").to_pylist(), run.table("gaps").to_pylist())
    return Time(axis(first, last, run.facts["bin_seconds"]), befell)


def _queue(row: Row) -> Queue:
    return row["node"], row["vhost"], row["queue"]


def _count(table: pa.Table) -> int:
    return int(table.filter(pc.is_valid(table.column("queue"))).group_by(list(NAME)).aggregate([]).num_rows)
