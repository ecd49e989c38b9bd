"""`leveret pipeline ...`: jobs on Apache Spark."""

from __future__ import annotations

import click

from broker.commands.audit import audit
from broker.commands.dead_letters import dead_letters, replay
from broker.commands.latency import latency
from broker.commands.throughput import throughput


@click.group()
def pipeline() -> None:
    """Jobs on Apache Spark over the event log and dead letters; they need `pip install 'leveret[pipeline]'`.

    All but replay leave tables (Parquet) and a page to read, report.html, in a directory, and can be run again at any
    time.
    """


for job in (audit, latency, throughput, dead_letters, replay):
    pipeline.add_command(job)
