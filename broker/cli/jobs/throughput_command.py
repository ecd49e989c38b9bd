"""`leveret pipeline throughput`: what went through queues, and how many messages were in them."""

from __future__ import annotations

import json
from typing import Any

import click

from broker.cli.jobs.job_output import number, show_coverage, show_lines
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.jobs.pipeline_options import JobSetting, JobSource, placed, sourced, timed
from broker.cli.table_output import text
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample

COUNTS = ("published", "delivered", "acked", "redelivered", "dead_lettered")
HEADING = ("vhost", "queue", *(name.replace("_", "-") for name in COUNTS), "redelivered %", "deepest", "depth")


@click.command(
    short_help="Messages through and in queues, by minute.", cls=CommandWithExample, example="--out throughput"
)
@targeted
@sourced
@timed
@placed
@json_option
def throughput(target: Target, source: JobSource, since: Any, until: Any, setting: JobSetting, as_json: bool) -> None:
    """Count the messages through each queue in each minute, and those in it at the minute's end.

    The table has each minute; the busiest queues are shown, over all minutes. Events before --since are read too: they
    say what is in a queue.
    """
    with setting.reading("throughput", source) as (read, parts, place):
        found = pipeline_module("jobs.throughput_job").run_throughput(read, parts, place, since, until)
    if as_json:
        shown = {**found.coverage, "counts": found.counts, "busiest": found.busiest}
        click.echo(json.dumps(shown, indent=2))
        return
    show_coverage(found.coverage)
    show_lines([HEADING, *map(_line, found.busiest)])


def _line(row: Any) -> tuple[str, ...]:
    rate = "" if row["redelivery_rate"] is None else number(100 * row["redelivery_rate"], 2)
    counts = [number(row[name]) for name in COUNTS]
    return text(row["vhost"]), text(row["queue"]), *counts, rate, number(row["deepest"]), number(row["depth"])
