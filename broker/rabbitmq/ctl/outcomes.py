"""Outcomes of a command line: output, or a refusal, with RabbitMQ's exit codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

USAGE, DATA, NO_USER, UNAVAILABLE, SOFTWARE, TIMED_OUT = 64, 65, 67, 69, 70, 75
"""Exit codes, those of sysexits.h."""


class ShownText(NamedTuple):
    """Lines for people, and what stands for them in JSON. `hushed`: not shown to those who asked for silence."""

    lines: Iterable[str]
    json: Any
    hushed: bool = False


class ListedRows(NamedTuple):
    """Rows of columns, perhaps very many.

    `streamed`: RabbitMQ writes each row for itself. It writes an empty line where a list that it has as a whole is
    empty. `headed`: the first line of a table names the columns.
    """

    columns: Sequence[str]
    rows: Iterable[Mapping[str, Any]]
    streamed: bool = True
    headed: bool = True


Outcome = ShownText | ListedRows


class VerbRefusal(Exception):
    """The command could not be carried out.

    `headed`: the text stands below a line `Error:`, as most do. `json` is what stands for it in JSON, if anything does.
    `hushed`: the text is not shown to those who asked for silence.
    """

    def __init__(self, code: int, text: str, *, headed: bool = True, json: Any = None, hushed: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.headed = headed
        self.json = json
        self.hushed = hushed


class Misuse(Exception):
    """The command line makes no sense: it is repeated, with how the verb is used."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.code = code


def bad_argument(text: str) -> Misuse:
    """An argument that cannot be used."""
    return Misuse(f"Bad argument: {text}" if text else "Bad argument.", DATA)
