"""Commands that read their whole line themselves, options included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import click


def whole_line(name: str, about: str, carry_out: Callable[[Sequence[str]], int]) -> click.Command:
    """A command that hands on all words behind its name, and ends with the exit code that this comes to."""

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
