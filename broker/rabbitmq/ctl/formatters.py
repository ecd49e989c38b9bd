"""Formatters of outcomes: table, JSON, CSV, table with lines, Erlang terms."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from broker.admin.json_terms import term
from broker.cli.table_output import text
from broker.rabbitmq.ctl.erlang_text import FIELD_TABLES, MAPS, cell, erlang_map, field_table, row_term
from broker.rabbitmq.ctl.outcomes import Outcome, ShownText


class Manner(NamedTuple):
    """Options of a formatter. `terminal`: output goes to a terminal, and no value may look like another row."""

    headers: bool
    silent: bool
    terminal: bool = False


class Formatter(NamedTuple):
    """A form of output. Banners are for people, and stand before no other forms than theirs."""

    write: Callable[[Outcome, Manner], Iterator[str]]
    banners: bool


def json_text(value: Any, *, ensure_ascii: bool = False) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=ensure_ascii)


def _cell(name: str, value: Any) -> str:
    if name in MAPS and value:
        return erlang_map(value)
    return field_table(value) if name in FIELD_TABLES else cell(value)


def _cells(row: Mapping[str, Any], columns: Sequence[str], manner: Manner) -> list[str]:
    cells = [_cell(name, row[name]) for name in columns]
    return list(map(text, cells)) if manner.terminal else cells


def _lines(shown: ShownText, manner: Manner) -> Iterable[str]:
    return () if shown.hushed and manner.silent else shown.lines


def _table(outcome: Outcome, manner: Manner) -> Iterator[str]:
    if isinstance(outcome, ShownText):
        yield from _lines(outcome, manner)
        return
    empty = True
    for row in outcome.rows:
        if empty and manner.headers and outcome.headed:
            yield "\t".join(outcome.columns)
        empty = False
        yield "\t".join(_cells(row, outcome.columns, manner))
    if empty and not outcome.streamed:
        yield ""


def _json(outcome: Outcome, manner: Manner) -> Iterator[str]:
    if isinstance(outcome, ShownText):
        if outcome.json is not None:
            yield json_text(outcome.json)
        return
    first = True
    for row in outcome.rows:
        if first:
            yield "["
        values = {name: row[name] for name in outcome.columns}
        yield ("" if first else ",") + json_text(values, ensure_ascii=manner.terminal)
        first = False
    if first and not outcome.streamed:
        yield "[]"
        return
    if first:
        yield "["
    yield "]"


def _csv(outcome: Outcome, manner: Manner) -> Iterator[str]:
    if isinstance(outcome, ShownText):
        yield from _lines(outcome, manner)
        return
    for number, row in enumerate(outcome.rows):
        if number == 0:
            yield _csv_line(outcome.columns)
        yield _csv_line(_cells(row, outcome.columns, manner))


def _csv_line(cells: Iterable[str]) -> str:
    return ",".join('"' + each.replace('"', '""') + '"' for each in cells)


def _erlang(outcome: Outcome, manner: Manner) -> Iterator[str]:
    if isinstance(outcome, ShownText):
        yield term(outcome.json)
        return
    rows = [row_term({name: row[name] for name in outcome.columns}) for row in outcome.rows]
    yield f"[{(',' + chr(10) + ' ').join(rows)}]"


_LINE, _TEXT = "\x1b(0", "\x1b(B"
"""From here on the terminal draws lines, or texts again."""


def _pretty_table(outcome: Outcome, manner: Manner) -> Iterator[str]:
    if isinstance(outcome, ShownText):
        lines = list(_lines(outcome, manner))
        if lines:
            yield from _framed(["Output"], [[[line] for line in lines]])
        return
    rows = [[_one_line(row)] for row in (_cells(row, outcome.columns, manner) for row in outcome.rows)]
    if rows:
        yield from _framed(outcome.columns, rows)
    elif not outcome.streamed:
        yield from _framed(["Output"], [[["[]"]]])


def _one_line(cells: Sequence[str]) -> list[str]:
    return [each.expandtabs().replace("\n", " ") for each in cells]


def _framed(columns: Sequence[str], blocks: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    """Blocks of lines of cells, with a line around each."""
    lines = [list(columns), *(line for block in blocks for line in block)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield _ruler("l", "w", "k", widths)
    yield _row(columns, widths, "\x1b[1m", "\x1b[0m")
    for block in blocks:
        yield _ruler("t", "n", "u", widths)
        yield from (_row(line, widths, "", "") for line in block)
    yield _ruler("m", "v", "j", widths)


def _ruler(left: str, middle: str, right: str, widths: Sequence[int]) -> str:
    return f"{_LINE}{left}{middle.join('q' * (width + 2) for width in widths)}{right}{_TEXT}"


def _row(cells: Sequence[str], widths: Sequence[int], before: str, after: str) -> str:
    bar = f"{_LINE}x{_TEXT}"
    padded = [f" {before}{each}{after}{' ' * (width - len(each))} " for each, width in zip(cells, widths, strict=True)]
    return bar + bar.join(padded) + bar


FORMATTERS: dict[str, Formatter] = {
    "table": Formatter(_table, True),
    "string": Formatter(_table, True),
    "report": Formatter(_table, True),
    "json": Formatter(_json, False),
    "csv": Formatter(_csv, False),
    "pretty_table": Formatter(_pretty_table, True),
    "prettytable": Formatter(_pretty_table, True),
    "erlang": Formatter(_erlang, True),
}
