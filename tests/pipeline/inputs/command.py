"""The command `leveret`, in this process: only what a signal may end needs one of its own."""

from __future__ import annotations

import logging
import os
from typing import NamedTuple

from click.testing import CliRunner

from broker.cli.main import main
from harness.clients.wire_client import Address


class Ended(NamedTuple):
    """A command that has ended: its exit code, and what it said."""

    code: int
    output: str
    errors: str


def leveret(*arguments: str | os.PathLike[str], said: str = "", **environment: str | None) -> Ended:
    """Run a command; `said` is its standard input, `environment` is set for it, or unset by None.

    Its logging handlers, set up as `leveret serve` does before it loads the broker, end with it.
    """
    code: object = 0
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    with CliRunner(env=environment).isolation(said) as (output, errors, _):
        try:
            main([os.fspath(each) for each in arguments])
        except SystemExit as end:
            code = end.code
        finally:
            root.setLevel(level)
            root.handlers[:] = handlers
        return Ended(int(str(code or 0)), output.getvalue().decode(), errors.getvalue().decode())


def at(address: Address) -> tuple[str, ...]:
    """The options that name a broker."""
    return ("--host", address[0], "--port", str(address[1]))
