"""`leveret rehearse`: definitions and a rabbitmq.conf as a later series of RabbitMQ reads them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from broker.cli.testing.with_broker_command import FORMATS, write_report
from broker.cli.usage.command_groups import CommandWithExample

_FILE = click.Path(path_type=Path)


@click.command(cls=CommandWithExample, example="--definitions definitions.json --conf rabbitmq.conf")
@click.option("--definitions", type=_FILE, help="Definitions: a file, or a directory of files.")
@click.option("--conf", type=_FILE, help="A rabbitmq.conf.")
@click.option("--from", "own", type=click.Choice(["3.10", "3.13", "4.2"]), default="3.13", help="The series of now.")
@click.option("--to", "target", type=click.Choice(["4.2", "4.3"]), default="4.3", help="The series of then.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Form of the report.")
@click.option("--output", type=click.Path(path_type=Path), help="File for the report; default: standard output.")
def rehearse(
    definitions: Path | None, conf: Path | None, own: str, target: str, form: str, output: Path | None
) -> None:
    """Name what RabbitMQ 4.3 refuses, or treats differently, of definitions and settings (docs/rehearsal.md).

    Exit codes: 0 nothing, 3 something.
    """
    # Imported here: no other command needs them.
    from broker.rehearsal.rehearsed_files import findings
    from leveret.testing.rehearsal.run_comparison import findings_alone

    files = [f"{file}" for file in (definitions, conf) if file is not None]
    if not files:
        raise click.UsageError("name a file by --definitions or --conf")
    if own == target:
        raise click.UsageError("--from and --to are the same")
    comparison = findings_alone(files, (own, target), findings(definitions, conf, own, target))
    write_report(comparison, form, output)
    sys.exit(comparison.code)
