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

    `headed`: the text stands below a line `Error:`, as most do. `json` is what stands for it in JSON, if anything does,
    and `json_code` the exit code with it. `hushed`: the text is not shown to those who asked for silence.
    """

    def __init__(
        self,
        code: int,
        text: str,
        *,
        headed: bool = True,
        json: Any = None,
        json_code: int | None = None,
        hushed: bool = False,
    ) -> None:
        super().__init__(text)
        self.code = code
        self.json_code = code if json_code is None else json_code
        self.text = text
        self.headed = headed
        self.json = json
        self.hushed = hushed


class Misuse(Exception):
    """The command line makes no sense: it is repeated, with how the verb is used.

    `of_arguments`: the arguments themselves are wrong, whatever the state of the broker. `characters`: RabbitMQ shows
    the text as a list of characters.
    """

    def __init__(self, text: str, code: int = USAGE, *, of_arguments: bool = True, characters: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.of_arguments = of_arguments
        self.characters = characters


def bad_argument(text: str) -> Misuse:
    """An argument that cannot be used."""
    return Misuse(f"Bad argument: {text}" if text else "Bad argument.", DATA)
