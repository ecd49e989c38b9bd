"""The command `leveret`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

import click

from broker import __version__
from broker.admin.protocol import AdministrationError
from broker.cli.catalogue import LINKS
from broker.cli.table_output import text
from broker.cli.usage.command_groups import Verbs
from broker.config import ConfigError
from storage.storage_errors import StoreError

_PAIR = re.compile(r'\{<<"([^"]*)">>,([^{}\[\]]*)\}')
_MEMBER = r'"\1": \2'
_PAIRS = re.compile(rf"\[(?:{_PAIR.pattern},?)+\]")
_BINARY = re.compile(r'<<"([^"]*)">>')
_POSITION = re.compile(r'\{"([^"]*)",(\d+)\}')
"""Erlang's terms in refusals: `[{<<"a">>,5}]`, `<<"a">>`, `{"missing )",1}`."""
EXPECTED = (ConfigError, AdministrationError, StoreError, OSError)
"""Errors that are no fault of the program: they are printed as one line, without a traceback."""


@click.command(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 failure (one line on standard error has the reason), 2 wrong usage.",
)
@click.version_option(__version__, message="leveret %(version)s")
def leveret() -> None:
    """Leveret, a durable AMQP 0-9-1 broker.

    Commands apply to one data directory: that of --data-dir, --config or the environment variables LEVERET_DATA_DIR and
    LEVERET_CONFIG, else ./leveret-data or that of the service. A running broker carries them out at once; if it is
    stopped, its stores are changed directly.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, that of this process if none is given, and exit.

    A link to the program that is named as one of RabbitMQ's is that command.
    """
    called = Path(sys.argv[0]).name
    if arguments is None and called in LINKS:
        arguments = [called, *sys.argv[1:]]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # Names are bytes; those that are not UTF-8 are printed as they are.
            stream.reconfigure(errors="surrogateescape")
    end_with(lambda: leveret.main(arguments, prog_name="leveret"))


def end_with(command: Callable[[], int]) -> NoReturn:
    """Carry out a command and exit with its code; what may be expected to go wrong is one line and code 1."""
    try:
        sys.exit(command())
    except Exception as error:
        causes = list(_causes(error))
        if not all(isinstance(cause, EXPECTED) for cause in causes):
            raise
        for cause in causes:
            click.echo(f"leveret: error: {text(_sentence(cause))}", err=True)
        sys.exit(1)


def _causes(error: Exception) -> Iterator[Exception]:
    """The error itself, or those that a group of tasks ended with."""
    if isinstance(error, ExceptionGroup):
        for inner in error.exceptions:
            yield from _causes(inner)
    else:
        yield error


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return _without_erlang(str(error)) if isinstance(error, AdministrationError) else str(error)


def _without_erlang(message: str) -> str:
    """Return RabbitMQ's text of a refusal with JSON where it has Erlang's terms."""
    message = _PAIRS.sub(
        lambda pairs: f"{{{', '.join(_PAIR.sub(_MEMBER, pair) for pair in _each(pairs[0]))}}}", message
    )
    return _POSITION.sub(r"\1 at position \2", _BINARY.sub(r'"\1"', message))


def _each(pairs: str) -> list[str]:
    return [pair[0] for pair in _PAIR.finditer(pairs)]
