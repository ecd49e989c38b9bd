"""`leveret config show|check`: the file of settings."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import click

from broker.cli.table_output import counted
from broker.cli.usage.command_groups import Commands
from broker.config import Config, ConfigError
from broker.settings_loader import load

EXAMPLE = Path(__file__).parents[2] / "config.example.toml"
"""Beside the packages, in a checkout and in a wheel."""


@click.group(cls=Commands)
def config() -> None:
    """Print every setting with its default, or check a file of settings."""


@config.command(name="show", short_help="Print every setting with default, unit and reason.", example="> leveret.toml")
def show_example() -> None:
    """Print every setting with its default, its unit and its reason: a file for `leveret serve --config FILE`."""
    click.echo(EXAMPLE.read_text(encoding="utf-8"), nl=False)


@config.command(name="check", short_help="Check a file of settings.", example="leveret.toml")
@click.argument("file", type=click.Path(path_type=Path))
def check_file(file: Path) -> None:
    """Check FILE, in TOML or, with a name that ends in .conf, in the format of rabbitmq.conf.

    Certificates that it names are read, too. An error names the file, the key and the expected value; the exit code
    is 1.
    """
    settings, without_effect = _rabbitmq_conf(file) if file.suffix == ".conf" else _toml(file)
    click.echo(f"{file}: OK, {counted(settings, 'setting')}")
    if without_effect:
        click.echo(f"without effect here: {', '.join(without_effect)}", err=True)


def _toml(file: Path) -> tuple[int, list[str]]:
    """Return the number of settings, and those without effect. Raises ConfigError."""
    settings = load(file, {})
    _read_certificates(settings, file)
    if settings.shovels:
        _check_shovels(settings, file)
    sections = tomllib.loads(file.read_text(encoding="utf-8")).values()
    return sum(map(len, sections)), []


def _rabbitmq_conf(file: Path) -> tuple[int, list[str]]:
    # Imported here, as the certificates are: neither is needed for most files.
    from broker.rabbitmq.conf.conf_translation import read_conf

    conf = read_conf([file], os.environ)
    _read_certificates(load(None, {}, translated=conf.settings), file)
    return len(conf.settings.origins), conf.without_effect


def _check_shovels(settings: Config, file: Path) -> None:
    from broker.admin.kinds import shovel_check

    problem = shovel_check.static_problem(settings.shovels)
    if problem:
        raise ConfigError(f"{file}: {problem}")


def _read_certificates(settings: Config, file: Path) -> None:
    if not settings.tls.listen and not settings.management.tls_listen:
        return
    from broker.server.net import tls_context

    try:
        tls_context.load(settings.tls)
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
