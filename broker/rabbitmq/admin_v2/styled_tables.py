"""Tables in the styles of `rabbitmqadmin` version 2."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

Row = Sequence[str]


class Line(NamedTuple):
    """A horizontal line: its ends, the line itself, and where columns meet it."""

    left: str
    fill: str
    cross: str
    right: str

    def drawn(self, widths: Sequence[int]) -> str:
        """Return it over columns of these widths, padding included."""
        return self.left + self.cross.join(self.fill * width for width in widths) + self.right


class Style(NamedTuple):
    """Lines of a table: vertical ones, above, below the first row, between the others, below all. None is no line."""

    left: str
    between: str
    right: str
    top: Line | None = None
    head: Line | None = None
    rows: Line | None = None
    bottom: Line | None = None


_ASCII = Line("+", "-", "+", "+")
STYLES = {
    "modern": Style("│", "│", "│", Line("╭", "─", "┬", "╮"), Line("├", "─", "┼", "┤"), None, Line("╰", "─", "┴", "╯")),
    "sharp": Style("│", "│", "│", Line("┌", "─", "┬", "┐"), Line("├", "─", "┼", "┤"), None, Line("└", "─", "┴", "┘")),
    "ascii": Style("|", "|", "|", _ASCII, _ASCII, _ASCII, _ASCII),
    "dots": Style(":", ":", ":", Line(*"...."), *[Line(":", ".", ":", ":")] * 3),
    "markdown": Style("|", "|", "|", head=Line("|", "-", "|", "|")),
    "psql": Style("", "|", "", head=Line("", "-", "+", "")),
    "borderless": Style("", " ", ""),
}
"""By their names on the command line."""
DEFAULT = "modern"


def styled(rows: Sequence[Row], style: str, title: str | None = None) -> list[str]:
    """The lines of a table. The first row is its heading; a title is a row above it, over all columns."""
    if not rows or not rows[0]:
        return [""]
    chosen = STYLES[style]
    widths = [width + 2 for width in _widths(rows, title)]
    first, *others = [[title], *rows] if title is not None else rows
    lines = [*_one(chosen.top, widths), *_cells(first, chosen, widths, 1)]
    lines += _one(chosen.head if others or chosen.head else chosen.bottom, widths)
    for number, row in enumerate(others):
        lines += [*(_one(chosen.rows, widths) if number else []), *_cells(row, chosen, widths, 1)]
    return [*lines, *(_one(chosen.bottom, widths) if others else [])]


def plain(rows: Sequence[Row], title: str | None = None) -> list[str]:
    """The lines of a table for scripts: no lines, and its first row, title or heading, is left out."""
    shown = [[cell.replace("\n", ",") for cell in row] for row in (rows if title is not None else rows[1:])]
    if not shown:
        return [""]
    widths = [width + 1 for width in _widths(shown, None)]
    return [line for row in shown for line in _cells(row, STYLES["borderless"], widths, 0)]


def _widths(rows: Sequence[Row], title: str | None) -> list[int]:
    widths = [max(_width(line) for cell in column for line in cell.split("\n")) for column in zip(*rows, strict=True)]
    lacking = 0 if title is None else len(title) - (sum(widths) + 3 * (len(widths) - 1))
    for number in range(max(lacking, 0)):
        widths[number % len(widths)] += 1
    return widths


def _one(line: Line | None, widths: Sequence[int]) -> list[str]:
    return [] if line is None else [line.drawn(widths)]


def _cells(row: Row, style: Style, widths: Sequence[int], indent: int) -> Iterator[str]:
    """The lines of a row: as many as its tallest cell has. A single cell goes over all columns."""
    if len(row) == 1:
        widths = [sum(widths) + len(widths) - 1]
    for lines in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
        cells = (_padded(f"{' ' * indent}{line}", width) for line, width in zip(lines, widths, strict=True))
        yield style.left + style.between.join(cells) + style.right


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _width(text: str) -> int:
    """The columns of a terminal that a text takes: two for a wide character, none for one that joins the one before."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
