"""`leveret export events`: the event log as Parquet."""

from __future__ import annotations

import os

import click

from broker.admin.protocol import AdministrationError
from broker.cli.jobs.pipeline_extra import pipeline_module
from broker.cli.jobs.progress import progress
from broker.cli.table_output import counted
from broker.cli.target_broker import Target, targeted
from broker.cli.usage.command_groups import CommandWithExample


@click.command(name="events", cls=CommandWithExample, example="--to events-parquet")
@targeted
@click.option("--from", "source", metavar="DIR|URL", help="Event log; default: that of the data directory.")
@click.option(
    "--to", "where", required=True, metavar="DIR|URI", help="Output directory, s3://..., hdfs://..., gs://..."
)
@click.option("--user", metavar="NAME", help="User for a URL; default: guest.")
@click.option("--password-file", metavar="FILE", help="File with the password; see below.")
@click.option("--tls-ca-file", metavar="FILE", help="Trusted CA certificates, PEM; default: the system's.")
def export_events(target: Target, source: str | None, where: str, **access: str | None) -> None:
    """Write sealed segments of the event log as Parquet files, with a manifest of rows and checksums.

    Existing files are not written again: an interrupted command is continued by the same one. The broker may run.

    Segments of a remote broker are read by HTTP, from http://HOST:PORT or https://. The password is read from the file,
    or from the variable LEVERET_PASSWORD; without either it is asked for, or read from standard input.
    """
    export, targets = map(pipeline_module, ("export", "file_target"))
    source = source or str(target.config.events_directory)
    rows = files = size = 0
    try:
        work = export.begin(source, where, _options(source, **access))
        with progress("events", sum(work.sizes.values())) as tell:
            for name in work.sizes:
                file = work.run(name)
                rows, files, size = rows + (file.rows if file else 0), files + bool(file), size + work.sizes[name]
                tell(size)
    except (ValueError, targets.ManifestError) as error:
        raise AdministrationError("failed", str(error)) from error
    click.echo(f"{counted(rows, 'event')} in {counted(files, 'new file')} in {where}")


def _options(source: str, user: str | None, password_file: str | None, tls_ca_file: str | None) -> dict[str, str]:
    """The Spark source's options for logging in, when the source is a URL."""
    given = {"user": user, "passwordFile": password_file, "tlsCaFile": tls_ca_file}
    options = {name: value for name, value in given.items() if value is not None}
    if source.startswith(("http://", "https://")) and password_file is None:
        # Imported here: the commands of users bring along much that `leveret ping` would load too.
        from broker.cli.user_commands import asked_password

        options["password"] = os.environ.get("LEVERET_PASSWORD") or asked_password()
    return options
