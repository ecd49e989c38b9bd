"""Tables of columns: each value of a thing is computed by itself, and only if it is asked for.

A list of 10,000 things is sorted by one column and cut to a page before the other columns of any of them are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from broker.admin.json_tables import plain
from broker.wire.field_tables import Table

T = TypeVar("T")
Column: TypeAlias = Callable[[T], Any]
Joint: TypeAlias = Mapping[tuple[str, ...], Callable[[T], Sequence[Any]]]
Inner: TypeAlias = Callable[[str], Callable[[T], Any] | None]
PathTree: TypeAlias = "dict[str, PathTree | None]"

ABSENT: Any = object()
"""The value of a column that does not apply to a thing. The HTTP API leaves it out, the command line shows it empty."""

FIELD_TABLES = frozenset({"arguments", "client_properties"})
"""Columns whose values are AMQP field tables."""


class Columns(Generic[T]):
    """Columns by name, in the order in which they are shown."""

    def __init__(
        self,
        table: Mapping[str, Column[T]],
        joint: Joint[T] | None = None,
        inner: Inner[T] | None = None,
        on_request: Mapping[str, Column[T]] | None = None,
    ) -> None:
        """`joint` are columns that one call computes together: values in the order of the names.

        `inner` maps a path such as `message_stats.publish` to a function that computes it without the rest of its
        column, or to None. Columns `on_request` are those that only rows have that are asked for them.
        """
        self._on_request = dict(on_request or {})
        self._table = {**table, **self._on_request}
        self._joint = dict(joint or {})
        self._inner = inner

    @property
    def names(self) -> list[str]:
        """All columns."""
        always = [name for name in self._table if name not in self._on_request]
        return [*always, *(name for group in self._joint for name in group)]

    def row(self, thing: T, wanted: Iterable[str] = ()) -> dict[str, Any]:
        """All columns of a thing, or those that are `wanted`, where a dot leads into a column."""
        return self.view(wanted)(thing)

    def view(self, wanted: Iterable[str] = (), tables: Callable[[Table], Any] = plain) -> Callable[[T], dict[str, Any]]:
        """A function that returns the row of a thing. `tables` converts AMQP field tables to JSON."""
        paths = path_tree(wanted)
        names = paths.keys()
        chosen = [
            (name, _converted(column, tables) if name in FIELD_TABLES else column)
            for name, column in self._table.items()
            if name in names or not (names or name in self._on_request)
        ]
        joint = [(group, values) for group, values in self._joint.items() if not names.isdisjoint(group) or not names]

        def row(thing: T) -> dict[str, Any]:
            found = {name: value for name, column in chosen if (value := column(thing)) is not ABSENT}
            for group, values in joint:
                together = zip(group, values(thing), strict=True)
                found |= {name: value for name, value in together if value is not ABSENT}
            return found

        if not paths or (not joint and all(below is None for below in paths.values())):
            return row
        return lambda thing: pruned(row(thing), paths)

    def getter(self, path: str) -> Column[T]:
        """A function that returns one value of a thing; ABSENT if it has none."""
        if self._inner is not None and (known := self._inner(path)) is not None:
            return known
        name, *rest = path.split(".")
        column = self._column(name)
        if not rest:
            return column

        def value(thing: T) -> Any:
            found = column(thing)
            for key in rest:
                if not isinstance(found, Mapping):
                    return ABSENT
                found = found.get(key, ABSENT)
            return found

        return value

    def _column(self, name: str) -> Column[T]:
        for group, values in self._joint.items():
            if name in group:
                place = group.index(name)
                return lambda thing: values(thing)[place]
        if name in FIELD_TABLES and name in self._table:
            return _converted(self._table[name], plain)
        return self._table.get(name, _absent)


def _converted(column: Column[T], tables: Callable[[Table], Any]) -> Column[T]:
    return lambda thing: tables(column(thing))


def _absent(_: object) -> Any:
    return ABSENT


def chosen(row: dict[str, Any], wanted: Iterable[str]) -> Any:
    """A complete row, or the columns of it that are `wanted`; an empty list if none of them exists."""
    paths = path_tree(wanted)
    return (pruned(row, paths) or []) if paths else row


def columns_of(*names: str) -> Columns[Mapping[str, Any]]:
    """The columns of things that are rows already; a row may lack some."""
    return Columns({name: partial(_cell, name) for name in names})


def _cell(name: str, row: Mapping[str, Any]) -> Any:
    return row.get(name, ABSENT)


def pruned(value: Any, wanted: PathTree) -> Any:
    """The parts of a value that the paths lead to. Paths that lead nowhere are left out."""
    if not isinstance(value, Mapping):
        return value
    kept: dict[str, Any] = {}
    for name, below in wanted.items():
        if name not in value:
            continue
        part = value[name] if below is None else pruned(value[name], below)
        if part != {} or below is None:
            kept[name] = part
    return kept


def path_tree(paths: Iterable[str]) -> PathTree:
    """Dotted paths as a tree of names; None where a whole column is wanted.

    A query string has room for 4,000 paths: a list of them would be searched for each name of each row.
    """
    wanted: PathTree = {}
    for path in paths:
        *names, last = path.split(".")
        below: PathTree | None = wanted
        for name in names:
            below = None if below is None else below.setdefault(name, {})
        if below is not None:
            below[last] = None
    return wanted
