"""`leveret pipeline latency`: how long messages waited, by queue and minute."""

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

SPREAD = ("p50_ms", "p95_ms", "p99_ms", "max_ms")
HEADING = ("vhost", "queue", "from, to", "durations", "p50 ms", "p95 ms", "p99 ms", "max ms")


@click.command(short_help="How long messages waited.", cls=CommandWithExample, example="--out latency")
@targeted
@sourced
@timed
@placed
@json_option
def latency(target: Target, source: JobSource, since: Any, until: Any, setting: JobSetting, as_json: bool) -> None:
    """Show how long messages waited, by queue and minute: for their confirm, for a consumer, and for its ack.

    The tables have each minute; the busiest queues are shown, over all minutes. Events before --since are read too: a
    message may have been published then.
    """
    with setting.reading("latency", source) as (read, parts, place):
        found = pipeline_module("jobs.latency_job").run_latency(read, parts, place, since, until)
    if as_json:
        shown = {**found.coverage, "durations": found.durations, "negative": found.negative}
        click.echo(json.dumps({**shown, "busiest": found.busiest}, indent=2))
        return
    show_coverage(found.coverage)
    click.echo(f"{found.durations:,} durations")
    if found.negative:
        click.echo(f"{found.negative:,} more were not measured: the clock was set back meanwhile")
    rows = [
        (text(row["vhost"]), text(row["queue"]), row["stage"].replace("_", " "), number(row["n"]), *_spread(row))
        for row in found.busiest
    ]
    show_lines([HEADING, *rows])


def _spread(row: Any) -> list[str]:
    return [number(row[name], 1) for name in SPREAD]
