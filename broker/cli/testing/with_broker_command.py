"""`leveret test`: a broker for as long as a command runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from broker.admin.protocol import AdministrationError
from broker.cli.usage.command_groups import CommandWithExample

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that is not there, or cannot be run."""


@click.command(context_settings={"ignore_unknown_options": True}, cls=CommandWithExample, example="-- npm test")
@click.option("--config", type=click.Path(path_type=Path, exists=True), help="Further settings of the broker.")
@click.option("--log", type=click.Path(path_type=Path), help="File for the broker's log; default: deleted with it.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def test(config: Path | None, log: Path | None, command: tuple[str, ...]) -> None:
    """Run COMMAND with a fresh broker, which is deleted afterwards.

    It is empty and takes orders of tests. Its address is in AMQP_URL and RABBITMQ_URL, that of its HTTP API, with name
    and password, in LEVERET_CONTROL_URL. The exit code is the command's.
    """
    # Imported here: no other command needs it.
    from leveret.testing import Broker, LeveretError

    try:
        with Broker(settings="" if config is None else config.read_text(encoding="utf-8")) as broker:
            urls = {"AMQP_URL": broker.url, "RABBITMQ_URL": broker.url, "LEVERET_CONTROL_URL": broker.http_url}
            try:
                code = run(command, {**os.environ, **urls})
            finally:
                if log is not None:
                    log.write_text(broker.log(), encoding="utf-8")
    except LeveretError as error:
        raise AdministrationError("failed", str(error)) from None
    sys.exit(code)


def run(command: tuple[str, ...], environment: dict[str, str]) -> int:
    """Run a command to its end, with what signals this process gets; its exit code, as a shell has it."""
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        click.echo(f"leveret: error: {command[0]}: {error.strerror}", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    with _passing_on(process):
        code = process.wait()
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The command ends first, then the broker. ^C has reached it from the terminal already."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number)),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
