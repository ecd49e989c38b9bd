"""`leveret serve`: run the broker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from broker.cli.target_broker import data_directory_options
from broker.config import load
from broker.logs import set_up


@click.command()
@data_directory_options
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Address to accept connections on; may be repeated.")
@click.option(
    "--management-listen",
    multiple=True,
    metavar="HOST:PORT",
    help="Address of the HTTP API and the web page, or `off`; may be repeated.",
)
@click.option(
    "--prometheus-listen", multiple=True, metavar="HOST:PORT", help="Address of metrics, or `off`; may be repeated."
)
@click.option("--definitions", metavar="FILE", help="Definitions in RabbitMQ's JSON, imported before listening.")
def serve(
    config: Path | None,
    data_dir: str | None,
    listen: tuple[str, ...],
    management_listen: tuple[str, ...],
    prometheus_listen: tuple[str, ...],
    definitions: str | None,
) -> None:
    """Run the broker until SIGTERM or SIGINT.

    When it accepts connections, it says so with one line on standard output; logs go to standard error.

    Exit codes: 0 after a clean stop, 1 when it could not start or had to stop, 2 for wrong usage.
    """
    loaded = load(
        config,
        os.environ,
        data_dir=data_dir,
        listen=listen,
        management_listen=management_listen,
        prometheus_listen=prometheus_listen,
        definitions=definitions,
    )
    set_up(loaded.logs)
    # Imported last: a wrong setting is reported without loading the broker.
    from broker.server.serve import run

    sys.exit(run(loaded))
