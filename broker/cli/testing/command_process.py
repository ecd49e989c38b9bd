"""A command as a child process: it gets the signals that this process gets, and may have a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import click

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes of a shell for a command that is not there, or cannot be run."""
KILL_AFTER_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL for a command whose time is over."""


def run(
    command: tuple[str, ...],
    environment: dict[str, str],
    seconds: float | None = None,
    received: list[int] | None = None,
) -> int | None:
    """Run a command to its end; return its exit code, as a shell has it. None: it was ended after `seconds`.

    Signals that this process gets meanwhile are added to `received`.
    """
    try:
        # A group of its own where it may have to be ended: its children end with it.
        process = subprocess.Popen(command, env=environment, process_group=None if seconds is None else 0)
    except OSError as error:
        click.echo(f"leveret: error: {command[0]}: {error.strerror}", err=True)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    with _passing_on(process, [] if received is None else received, grouped=seconds is not None):
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            return None
    return code if code >= 0 else 128 - code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and its children."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(KILL_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@contextmanager
def _passing_on(process: subprocess.Popen[bytes], received: list[int], *, grouped: bool) -> Iterator[None]:
    """The command ends first, then the broker. ^C is passed on only to a command with a group of its own: others get it
    from the terminal."""

    def pass_on(number: int, _: object) -> None:
        received.append(number)
        if grouped:
            os.killpg(process.pid, number)
        elif number != signal.SIGINT:
            process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
