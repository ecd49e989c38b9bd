"""Lists for the command line: one row of named columns for each thing, computed when it is asked for.

So a long list goes out in parts while the broker goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.json_tables import plain, typed
from broker.admin.protocol import invalid
from broker.admin.views.columns import Columns, columns_of
from broker.entities.vhosts.vhost import VHost

Row = dict[str, Any]


class View(NamedTuple):
    """All things of one kind, and the columns that a list shows of them.

    `things` is called with the name of the virtual host or user whose things are listed, None for all, and raises
    AdministrationError. What it returns may be iterated over while the broker goes on. `null` is shown where a column
    is None.
    """

    things: Callable[[Administration, Any], Iterable[Any]]
    columns: Callable[[Administration], Columns[Any]]
    null: str | None = ""


class Selection(NamedTuple):
    """Choice of rows and columns of a list: whose things, None for all; which columns, all if none is named.

    With `typed`, field tables are lists of [name, type, value]; with `lenient`, unknown columns are empty texts.
    """

    owner: str | None
    columns: Sequence[str]
    typed: bool
    lenient: bool


def rows(view: View, administration: Administration, selection: Selection) -> Iterator[Row]:
    """Return the rows of a list, each computed when it is asked for. Raises AdministrationError at once."""
    columns = view.columns(administration)
    wanted = _wanted(columns, selection)
    row = columns.view(wanted, typed if selection.typed else plain)
    things, names, null = view.things(administration, selection.owner), wanted or columns.names, view.null
    return (_completed(row(thing), names, null) for thing in things)


def _completed(found: Row, names: Iterable[str], null: str | None) -> Row:
    return {name: null if (value := found.get(name, "")) is None else value for name in names}


def _wanted(columns: Columns[Any], selection: Selection) -> tuple[str, ...]:
    known, wanted = columns.names, tuple(dict.fromkeys(selection.columns))
    unknown = [name for name in wanted if name not in known]
    if unknown and not selection.lenient:
        raise invalid(f"there is no column {unknown[0]}; known: {', '.join(known)}")
    return wanted


def cells(*names: str) -> Callable[[Administration], Columns[Any]]:
    """The columns of things that are rows already."""
    columns = columns_of(*names)
    return lambda administration: columns


def in_vhosts(items: Callable[[VHost], Iterable[Any]]) -> Callable[[Administration, str | None], Iterator[Any]]:
    """Return the `items` of the virtual host that is named, or of all of them.

    `items` returns copies, which may be iterated over while the broker goes on.
    """

    def things(administration: Administration, vhost: str | None) -> Iterator[Any]:
        chosen = administration.vhosts(vhost)
        return (item for each in chosen for item in items(each))

    return things
