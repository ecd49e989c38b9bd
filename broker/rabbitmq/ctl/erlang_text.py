"""Values in Erlang's notation, as RabbitMQ's command line shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from broker.admin.json_terms import atom, quoted, scalar, term

FIELD_TABLES = frozenset({"arguments", "client_properties"})
"""Columns whose values are lists of [name, type, value]."""


MAPS = frozenset({"metadata"})
"""Columns whose values are maps."""


def cell(value: Any) -> str:
    """A value in a table: texts as they are, lists in brackets."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return f"[{', '.join(map(cell, value))}]"
    if isinstance(value, tuple):
        return f"{{{','.join(map(cell, value))}}}"
    if isinstance(value, Mapping):
        return f"[{', '.join(f'{{{name}, {cell(item)}}}' for name, item in value.items())}]"
    return scalar(value, "")


def erlang_map(values: Mapping[str, Any]) -> str:
    """A map in a table, its names in order: `#{description => for tests, tags => []}`."""
    return f"#{{{', '.join(f'{name} => {cell(values[name])}' for name in sorted(values))}}}"


def field_table(typed: Sequence[Sequence[Any]]) -> str:
    """A table of [name, type, value] as a list of pairs: `[{"x-max-length",5}]`."""
    return f"[{','.join(f'{{{quoted(name)},{_field(kind, value)}}}' for name, kind, value in typed)}]"


def _field(kind: str, value: Any) -> str:
    if kind == "table":
        return field_table(value)
    if kind == "array":
        return f"[{','.join(_field(*item) for item in value)}]"
    if isinstance(value, str):
        return quoted(value) if value else "[]"  # a text is a list of characters, and this one has none
    if isinstance(value, list):
        return f"{{{','.join(map(str, value))}}}"
    return scalar(value, "undefined")


def row_term(row: Mapping[str, Any]) -> str:
    """A row as a list of pairs, its texts as binaries: `[{name,<<"q">>},{messages,5}]`."""
    terms = ((name, _fields(value) if name in FIELD_TABLES else _binary(value)) for name, value in row.items())
    return f"[{','.join(f'{{{atom(name)},{value}}}' for name, value in terms)}]"


def _fields(typed: Sequence[Sequence[Any]]) -> str:
    return f"[{','.join(f'{{{_binary(name)},{kind},{_field_term(kind, value)}}}' for name, kind, value in typed)}]"


def _field_term(kind: str, value: Any) -> str:
    if kind == "table":
        return _fields(value)
    if kind == "array":
        return f"[{','.join(f'{{{of},{_field_term(of, item)}}}' for of, item in value)}]"
    return _binary(value)


def _binary(value: Any) -> str:
    if isinstance(value, str):
        return f"<<{quoted(value) if value else ''}>>"
    if isinstance(value, list):
        return f"[{','.join(map(_binary, value))}]"
    return term(value)
