"""`leveret pipeline ...`: jobs over the event log and dead letters."""

from __future__ import annotations

import click

from broker.cli.jobs.audit_command import audit
from broker.cli.jobs.dead_letter_commands import dead_letters, replay
from broker.cli.jobs.latency_command import latency
from broker.cli.jobs.throughput_command import throughput
from broker.cli.usage.command_groups import Commands


@click.group(cls=Commands)
def pipeline() -> None:
    """Jobs over the event log, and on Spark over dead letters; they need the extra `leveret[pipeline]`.

    All but replay write tables (Parquet) and a page, report.html, to a directory. They can be repeated at any time.
    """


for job in (audit, latency, throughput, dead_letters, replay):
    pipeline.add_command(job)
