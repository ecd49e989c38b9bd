"""Output of the command line: aligned columns for people, JSON for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

WIDTH_MAX = 60
"""Widest cell that others in its column are padded to: names may have 255 bytes."""
UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
MOMENTS = {"until": 1, "connected_at": 1000}
"""Columns with a moment, and the parts of a second that they count since the epoch."""
_COMMANDS = re.compile(r"(\x1b\[[01]m|\x1b\([0B]|[\n\t])")
"""Terminal controls in use: bold text, lines around tables, the next line, the next column."""


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], as_json: bool) -> None:
    """Print `columns` of each row under a heading. Raises click.UsageError for a column that the rows lack."""
    for column in columns:
        if rows and column not in rows[0]:
            raise click.UsageError(f"there is no column {column}; known: {', '.join(rows[0])}")
    if as_json:
        click.echo(json.dumps([{column: row[column] for column in columns} for row in rows], indent=2))
        return
    for line in aligned([list(columns), *([_cell(column, row[column]) for column in columns] for row in rows)]):
        click.echo(line)


def show_tree(tree: Mapping[str, Any], as_json: bool) -> None:
    """Print values by their names, sections indented; sizes in units. JSON has them in bytes."""
    if as_json:
        click.echo(json.dumps(tree, indent=2))
        return
    for line in _indented(tree, ""):
        click.echo(line)


def done(words: str, *values: str) -> None:
    """Print one line that says what was done, with these values in it."""
    click.echo(words.format(*map(text, values)))


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Cells padded so that columns stand under each other; one above WIDTH_MAX shifts the rest of its own line only."""
    widths = [max((len(cell) for cell in column if len(cell) <= WIDTH_MAX), default=0) for column in _columns(lines)]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return [line.rstrip() for line in padded]


def _columns(lines: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    return zip(*lines, strict=True)


def text(value: object) -> str:
    """One cell. A name's control characters are escaped, so that no name can forge lines or colours."""
    if isinstance(value, str):
        return "".join(character if _plain(character) else ascii(character)[1:-1] for character in value)
    return "" if value is None else json.dumps(value)


def on_terminal(shown: str) -> str:
    """Return text as a terminal may show it: controls in names are escaped."""
    return "".join(part if _COMMANDS.fullmatch(part) else text(part) for part in _COMMANDS.split(shown))


def echo(shown: str, *, err: bool = False, color: bool | None = None) -> None:
    """Print what another program may read byte for byte; on a terminal with what could command it escaped."""
    stream = sys.stderr if err else sys.stdout
    click.echo(on_terminal(shown) if stream.isatty() else shown, err=err, color=color)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 file, 2,000 files."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _plain(character: str) -> bool:
    # A surrogate is a byte of a name that is not UTF-8; it is printed as that byte.
    return character.isprintable() or "\udc80" <= character <= "\udcff"


def _indented(tree: Mapping[str, Any], indent: str) -> list[str]:
    width = max((len(name) for name, value in tree.items() if not isinstance(value, Mapping)), default=0)
    lines = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{name}:", *_indented(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name.ljust(width)}  {_leaf(name, value)}".rstrip())
    return lines


def _cell(column: str, value: object) -> str:
    """A cell for people: a moment as its date and time."""
    if isinstance(value, int | float) and column in MOMENTS:
        return datetime.fromtimestamp(value / MOMENTS[column], UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return text(value)


def _leaf(name: str, value: object) -> str:
    """A value of a tree for people: a size in units, a time to six digits, texts with commas between."""
    if isinstance(value, float) and name.endswith("_seconds"):
        return f"{value:.6g}"
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith("_bytes"):
        return size(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(map(text, value)) or "none"
    return text(value)


def size(number: int) -> str:
    """Return a number of bytes with its unit: 36.2 MiB, 512 bytes."""
    for unit, name in UNITS:
        if number >= unit:
            return f"{number / unit:,.1f} {name}"
    return f"{number} bytes"
