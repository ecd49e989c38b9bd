"""`leveret test`: a broker for as long as a command runs, or one with each of several personalities."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.admin.protocol import AdministrationError
from broker.cli.testing.command_process import run
from broker.cli.usage.command_groups import CommandWithExample
from broker.entities.arguments.personality import LATEST, PERSONALITIES

if TYPE_CHECKING:
    from leveret.testing import Broker
    from leveret.testing.rehearsal.run_comparison import Comparison

FORMATS = ("text", "json", "html")


def _personalities(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Split a list of personalities."""
    names = tuple(LATEST.get(name.strip(), name.strip()) for name in value.split(",")) if value else ()
    for name in names:
        if name not in PERSONALITIES:
            raise click.BadParameter(f"'{name}' is none of {', '.join(PERSONALITIES)}")
    if len(set(names)) < len(names):
        raise click.BadParameter("a personality is named twice")
    return names


@click.command(context_settings={"ignore_unknown_options": True}, cls=CommandWithExample, example="-- npm test")
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="Further settings of the broker.")
@click.option("--log", type=click.Path(path_type=Path), help="File for the broker's log; default: deleted with it.")
@click.option("--personality", callback=_personalities, help="Personality, or several: run once with each, 3.13,4.3.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds after which a run is ended.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="Form of the report.")
@click.option("--output", type=click.Path(path_type=Path), help="File for the report; default: standard output.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def test(
    config: Path | None,
    log: Path | None,
    personality: tuple[str, ...],
    timeout: float | None,
    form: str,
    output: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND with a fresh broker, which is deleted afterwards.

    It is empty and takes orders of tests. Its address is in AMQP_URL and RABBITMQ_URL, that of its HTTP API, with name
    and password, in LEVERET_CONTROL_URL. The exit code is the command's.

    With several personalities COMMAND runs once with each, and a report says what differed (docs/rehearsal.md). Exit
    codes: 0 nothing, 3 something, 1 the command failed with the first personality.
    """
    # Imported here: no other command needs it.
    from leveret.testing import Broker, LeveretError

    settings = "" if config is None else config.read_text(encoding="utf-8")
    try:
        if len(personality) > 1:
            from broker.cli.testing.rehearsed_runs import rehearse

            comparison = rehearse(command, personality, settings, timeout, log)
            write_report(comparison, form, output)
            sys.exit(comparison.code)
        chosen = dict(zip(("LEVERET_PERSONALITY",), personality, strict=False))
        with Broker(settings=settings, variables=chosen) as broker:
            try:
                code = run(command, environment(broker), timeout)
            finally:
                if log is not None:
                    log.write_text(broker.log(), encoding="utf-8")
    except LeveretError as error:
        raise AdministrationError("failed", str(error)) from None
    if code is None:
        raise AdministrationError("failed", f"the command did not end within {timeout:g} s (--timeout)")
    sys.exit(code)


def environment(broker: Broker) -> dict[str, str]:
    """Return the environment of a command, with the broker's addresses."""
    urls = {"AMQP_URL": broker.url, "RABBITMQ_URL": broker.url, "LEVERET_CONTROL_URL": broker.http_url}
    return {**os.environ, **urls}


def write_report(comparison: Comparison, form: str, output: Path | None) -> None:
    """Write a report to a file, or to standard output."""
    from leveret.testing.rehearsal.report_forms import report

    written = report(comparison, form)
    if output is None:
        click.echo(written, nl=False)
    else:
        output.write_text(written, encoding="utf-8")
