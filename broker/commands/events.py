"""`leveret export events`: the event log as Parquet."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from broker.administration import AdministrationError
from broker.commands.target import Target, targeted


@click.command(name="events")
@targeted
@click.option("--from", "source", metavar="DIR", help="The event log; default: that of the data directory.")
@click.option("--to", "where", required=True, metavar="DIR|URI", help="A directory, or s3://..., hdfs://..., gs://...")
def export_events(target: Target, source: str | None, where: str) -> None:
    """Write sealed segments of the event log as Parquet files, with a manifest of rows and checksums.

    What is there already is not written again: the same command goes on where it was interrupted. The broker may run.
    """
    try:
        from pipeline import export
    except ImportError as error:
        text = f"{error.name} is missing: pip install 'leveret[pipeline]' brings what the data pipeline needs"
        raise AdministrationError("missing", text) from error
    directory = Path(source) if source else target.config.events_directory
    rows = files = 0
    try:
        work = export.begin(directory, where)
        with click.progressbar(length=sum(work.sizes.values()), label="events", file=sys.stderr) as bar:
            for name, size in work.sizes.items():
                file = work.run(name)
                rows, files = rows + (file.rows if file else 0), files + bool(file)
                bar.update(size)
    except (ValueError, export.ManifestError) as error:
        raise AdministrationError("failed", str(error)) from error
    click.echo(f"{rows} events in {files} new files in {where}")
