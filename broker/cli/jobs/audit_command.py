"""`leveret pipeline audit`: was a confirmed message lost, delivered after its end, or out of order?"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from broker.cli.jobs.job_output import number, show_coverage, show_lines
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.jobs.pipeline_options import JobSetting, JobSource, placed, sourced
from broker.cli.table_output import text
from broker.cli.target_broker import Target, json_option, targeted
from broker.cli.usage.command_groups import CommandWithExample

FOUND = ("vhost", "queue", "position", "size_bytes", "properties", "evidence")


@click.command(short_help="Was a confirmed message lost?", cls=CommandWithExample, example="--out audit")
@targeted
@sourced
@placed
@click.option("--strict", is_flag=True, help="Fail also if it is unknown whether a message was lost.")
@click.option(
    "--since",
    type=click.Choice(["LAST"]),
    help="Read only segments that are new since the last audit with this option; that of --out has the others' state.",
)
@json_option
def audit(
    target: Target, source: JobSource, setting: JobSetting, strict: bool, since: str | None, as_json: bool
) -> None:
    """Check every message in the event log: was a confirmed one lost, delivered after its end, or out of order?

    Exit code 0 if nothing was found, 1 if something was found or the job failed.
    """
    if since is not None:
        setting = setting.by_spark("--since LAST")
    with setting.reading("audit", source) as (read, parts, place):
        found = pipeline_module("jobs.audit_job").run_audit(read, parts, place, since_last=since is not None)
    if as_json:
        shown = {**found.coverage, "verdicts": found.verdicts, "violations": found.violations}
        shown["found"] = found.found
        click.echo(json.dumps(shown, indent=2, default=str))
    else:
        _show_audit(found)
    doubtful = strict and "unknown" in found.verdicts
    sys.exit(int(doubtful or not found.clean))


def _show_audit(found: Any) -> None:
    """The verdicts, then what is wrong, then what is not known."""
    show_coverage(found.coverage)
    show_lines([("verdict", "copies"), *((verdict, f"{copies:,}") for verdict, copies in found.verdicts.items())])
    wrong = found.verdicts.get("lost", 0), found.violations
    click.echo(f"\n{wrong[0]:,} lost, {wrong[1]:,} with violations")
    if found.found:
        rows = [
            (", ".join([row["verdict"], *row["violations"]]), *(text(row[name]) for name in FOUND))
            for row in found.found
        ]
        show_lines([("verdict", *FOUND), *rows])
    if sum(wrong) > len(found.found) > 0:
        click.echo("... and more: see the table found")
    if found.gaps:
        click.echo("\nwhat the log does not say")
        rows = [
            (gap["node"], str(gap["boot"]), gap["kind"], *(number(gap[name]) for name in ("after", "lost", "in_doubt")))
            for gap in found.gaps
        ]
        show_lines([("node", "boot", "gap", "behind event", "events lost", "copies in doubt"), *rows])
