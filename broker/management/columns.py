"""What the API shows of one kind of thing: a table of columns, each worked out by itself.

A list of 10,000 things is sorted by one column and cut to a page before the other columns of any of them are worked
out, and of those only the ones that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Joint: TypeAlias = Mapping[tuple[str, ...], Callable[[T], Sequence[Any]]]
Inner: TypeAlias = Callable[[str], Callable[[T], Any] | None]
PathTree: TypeAlias = "dict[str, PathTree | None]"

ABSENT: Any = object()
"""The value of a column that this one has not got: it is left out."""


class Columns(Generic[T]):
    """Columns by name, in the order in which they are shown."""

    def __init__(
        self, table: Mapping[str, Callable[[T], Any]], joint: Joint[T] | None = None, inner: Inner[T] | None = None
    ) -> None:
        """`joint` are columns that are worked out together: the values of so many names.

        `inner` knows values within columns that need not be worked out for one of them: what gives it, or None.
        """
        self._table = dict(table)
        self._joint = dict(joint or {})
        self._inner = inner

    def row(self, thing: T, wanted: Iterable[str] = ()) -> dict[str, Any]:
        """What is shown of a thing: all of it, or the columns that are `wanted`, where a dot leads into a column."""
        return self.view(wanted)(thing)

    def view(self, wanted: Iterable[str] = ()) -> Callable[[T], dict[str, Any]]:
        """The same as a function, for many things."""
        paths = path_tree(wanted)
        names = paths.keys()
        chosen = [(name, column) for name, column in self._table.items() if not names or name in names]
        joint = [(group, values) for group, values in self._joint.items() if not names.isdisjoint(group) or not names]

        def row(thing: T) -> dict[str, Any]:
            found = {name: value for name, column in chosen if (value := column(thing)) is not ABSENT}
            for group, values in joint:
                together = zip(group, values(thing), strict=True)
                found.update((name, value) for name, value in together if value is not ABSENT)
            return found

        if not paths or (not joint and all(below is None for below in paths.values())):
            return row
        return lambda thing: pruned(row(thing), paths)

    def getter(self, path: str) -> Callable[[T], Any]:
        """A function that gives one value of a thing; ABSENT if there is none."""
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

    def _column(self, name: str) -> Callable[[T], Any]:
        for group, values in self._joint.items():
            if name in group:
                place = group.index(name)
                return lambda thing: values(thing)[place]
        return self._table.get(name, _absent)


def _absent(_: object) -> Any:
    return ABSENT


def chosen(row: dict[str, Any], wanted: Iterable[str]) -> Any:
    """A row that is there already, or the columns of it that are `wanted`; an empty list where none is there."""
    paths = path_tree(wanted)
    return (pruned(row, paths) or []) if paths else row


def columns_of(*names: str) -> Columns[Mapping[str, Any]]:
    """The columns of rows that are there already."""
    return Columns({name: itemgetter(name) for name in names})


def pruned(value: Any, wanted: PathTree) -> Any:
    """What these paths lead to in a value. Paths that lead nowhere are left out."""
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
    """Paths, in which dots lead into a column, by the names at their beginning; None where all of a column is wanted.

    A query string has room for 4,000 of them, which would be gone through for each name of each row.
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
