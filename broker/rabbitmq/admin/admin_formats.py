"""Output formats of `rabbitmqadmin`: tables, lines with tabs, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from broker.cli.table_output import text
from broker.rabbitmq.admin.admin_kinds import FIRST_COLUMNS, ListedKind

Row = Mapping[str, Any]
RULE = "-" * 80
TSV = "tsv"


def shown(
    answer: str, kind: ListedKind, columns: Sequence[str], form: str, depth: int, *, quiet: bool, terminal: bool = False
) -> list[str]:
    """The lines that show an answer. Without `columns`, those that there are down to `depth`.

    `terminal`: a person looks at them, and no value may seem another row.
    """
    parsed = json.loads(answer)
    if form == RAW_JSON:
        return [f"[{answer}]" if isinstance(parsed, dict) else answer]
    rows = [parsed] if isinstance(parsed, dict) else parsed
    if form == PRETTY_JSON:
        return [json.dumps(rows, indent=2, sort_keys=True, ensure_ascii=terminal)]
    if not rows:
        return [] if quiet else ["No items"]
    rows = [row if isinstance(row, dict) else {} for row in rows]  # one without any of the columns is []
    names = list(columns) or _columns(rows, kind.in_json, depth)
    cells = [[_cell(row, name, kind) for name in names] for row in rows]
    lines = list(FORMS[form](names, [list(map(text, row)) for row in cells] if terminal else cells))
    return lines[1:] if form == TSV and quiet else lines


def _columns(rows: Sequence[Row], in_json: frozenset[str], depth: int) -> list[str]:
    found = {name for row in rows for name in _names(row, in_json, depth)}
    first = [name for name in FIRST_COLUMNS if name in found]
    return first + sorted(found.difference(FIRST_COLUMNS))


def _names(row: Row, in_json: frozenset[str], depth: int) -> Iterator[str]:
    for name, value in row.items():
        if not isinstance(value, dict) or name in in_json:
            yield name
        elif depth > 1:
            yield from (f"{name}.{below}" for below in _names(value, in_json, depth - 1))


def _cell(row: Row, name: str, kind: ListedKind) -> str:
    """A table is empty where it is not JSON: columns of their own show what is in it."""
    value = _at(row, name)
    return "" if isinstance(value, dict) and name not in kind.in_json else _text(value)


def _at(row: Row, name: str) -> Any:
    """The value at a path of names with points between; names may have points themselves. Nothing there is empty."""
    if name in row:
        return row[name]
    for outer, value in row.items():
        if isinstance(value, dict) and name.startswith(f"{outer}."):
            return _at(value, name.removeprefix(f"{outer}."))
    return ""


def _text(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    rule = f"+{'+'.join('-' * (width + 2) for width in widths)}+"
    yield rule
    yield _bars(f"{name:^{width}}" for name, width in zip(names, widths, strict=True))
    yield rule
    for row in rows:
        yield _bars(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
    yield rule


def _bars(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tsv(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "\t".join(names)
    yield from ("\t".join(row) for row in rows)


def _long(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    width = max(map(len, names))
    yield from ("", RULE, "")
    for row in rows:
        yield from (f"{name:>{width}}: {cell}" for name, cell in zip(names, row, strict=True))
        yield from ("", RULE, "")


def _kvp(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from (" ".join(f'{name}="{cell}"' for name, cell in zip(names, row, strict=True)) for row in rows)


def _bash(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Names alone, for a loop."""
    if "name" in names:
        yield " ".join(row[names.index("name")] for row in rows)


FORMS: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]]], Iterator[str]]] = {
    TSV: _tsv,
    "long": _long,
    "table": _table,
    "kvp": _kvp,
    "bash": _bash,
}
RAW_JSON, PRETTY_JSON = "raw_json", "pretty_json"
FORMATS = (RAW_JSON, PRETTY_JSON, *FORMS)
