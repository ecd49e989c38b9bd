"""A program of RabbitMQ as a command of `leveret`: it parses its own options."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click


def program_command(name: str, about: str, carry_out: Callable[[Sequence[str]], int]) -> click.Command:
    """Return a command that passes every word after its name to `carry_out`, and exits with the code returned."""

    def run(words: tuple[str, ...]) -> NoReturn:
        sys.exit(carry_out(words))

    return click.Command(
        name,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []},
        callback=run,
        params=[click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)],
        short_help=about,
        add_help_option=False,
    )
