"""Lists for the command line: one row of named columns for each thing, computed when it is asked for.

So a long list goes out in parts while the broker goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.json_tables import plain, typed
from broker.admin.protocol import invalid
from broker.admin.views.columns import Columns, columns_of
from broker.entities.vhosts.vhost import VHost

Row = dict[str, Any]


class View(NamedTuple):
    """All things of one kind, and the columns that a list shows of them.

    `things` raises AdministrationError when it is called. What it returns may be iterated over while the broker goes
    on. `null` is shown where a column is None.
    """

    things: Callable[[Administration, Arguments], Iterable[Any]]
    columns: Callable[[Administration], Columns[Any]]
    null: str | None = ""


def rows(view: View, administration: Administration, arguments: Arguments) -> Iterator[Row]:
    """Return the rows, with the `columns` that were asked for, or with all.

    With `typed`, field tables are lists of [name, type, value]; with `lenient`, unknown columns are empty texts.
    Raises AdministrationError at once.
    """
    columns = view.columns(administration)
    wanted = _wanted(columns, arguments)
    row = columns.view(wanted, typed if arguments.flag("typed") else plain)
    things, names, null = view.things(administration, arguments), wanted or columns.names, view.null
    return (_completed(row(thing), names, null) for thing in things)


def _completed(found: Row, names: Iterable[str], null: str | None) -> Row:
    return {name: null if (value := found.get(name, "")) is None else value for name in names}


def _wanted(columns: Columns[Any], arguments: Arguments) -> tuple[str, ...]:
    known = columns.names
    wanted = arguments.texts("columns") if arguments.given("columns") else ()
    unknown = [name for name in wanted if name not in known]
    if unknown and not arguments.flag("lenient"):
        raise invalid(f"there is no column {unknown[0]}; known: {', '.join(known)}")
    return wanted


def cells(*names: str) -> Callable[[Administration], Columns[Any]]:
    """The columns of things that are rows already."""
    columns = columns_of(*names)
    return lambda administration: columns


def in_vhosts(items: Callable[[VHost], Iterable[Any]]) -> Callable[[Administration, Arguments], Iterator[Any]]:
    """Return the `items` of the virtual host that is named, or of all of them.

    `items` returns copies, which may be iterated over while the broker goes on.
    """

    def things(administration: Administration, arguments: Arguments) -> Iterator[Any]:
        chosen = vhosts(administration, arguments)
        return (item for vhost in chosen for item in items(vhost))

    return things


def vhosts(administration: Administration, arguments: Arguments) -> list[VHost]:
    """The virtual host that is named, or all. Raises AdministrationError `not_found`."""
    name = arguments.optional("vhost")
    return list(administration.broker.vhosts.values()) if name is None else [administration.vhost(name)]
