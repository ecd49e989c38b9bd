"""`leveret serve`: run the broker."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.named_directory import data_directory_options, named
from broker.cli.usage.command_groups import CommandWithExample
from broker.logs import set_up
from broker.settings_loader import load

if TYPE_CHECKING:
    from broker.rabbitmq.conf.conf_translation import Conf


@click.command(cls=CommandWithExample, example="--data-dir ./leveret-data --listen 0.0.0.0:5672", elsewhere="start run")
@data_directory_options
@click.option(
    "--rabbitmq-conf",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Settings in the format of rabbitmq.conf, over those of --config; may be repeated.",
)
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
@click.option("--definitions", metavar="FILE|URL", help="Definitions in RabbitMQ's JSON, imported before listening.")
def serve(
    rabbitmq_conf: tuple[Path, ...],
    listen: tuple[str, ...],
    management_listen: tuple[str, ...],
    prometheus_listen: tuple[str, ...],
    definitions: str | None,
) -> None:
    """Run the broker until SIGTERM or SIGINT.

    When it accepts connections, it says so with one line on standard output; logs go to standard error.

    Exit codes: 0 after a clean stop, 1 when it could not start or had to stop, 2 for wrong usage.
    """
    conf = _read(rabbitmq_conf)
    place = named()
    loaded = load(
        place.config,
        os.environ,
        translated=None if conf is None else conf.settings,
        data_dir=place.data_dir,
        listen=listen,
        management_listen=management_listen,
        prometheus_listen=prometheus_listen,
        definitions=definitions,
    )
    set_up(loaded.logs)
    if conf is not None:
        conf.warn()
    gc.disable()  # what is loaded stays: looking for cycles in it takes a twentieth of the start
    # Imported last: a wrong setting is reported without loading the broker.
    from broker.server.serve import run

    gc.enable()
    sys.exit(run(loaded, settings_files=[*([place.config] if place.config else []), *rabbitmq_conf]))


def _read(files: tuple[Path, ...]) -> Conf | None:
    if not files:
        return None
    # Imported here: most brokers have no such file.
    from broker.rabbitmq.conf.conf_translation import read_conf

    return read_conf(files, os.environ)
