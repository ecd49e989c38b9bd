"""What exists, as rows of named columns, worked out row by row: so a long list goes out in parts.

The tables of columns are in `broker/admin/listings`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from broker.admin.administration import Administration
from broker.admin.command_arguments import Arguments
from broker.admin.json_tables import plain, typed
from broker.admin.protocol import invalid
from broker.entities.statistics.node_identity import NodeIdentity
from broker.entities.vhosts.vhost import VHost

Row = dict[str, Any]
Column = Callable[[Any], Any]

FIELD_TABLES = frozenset({"arguments", "client_properties"})
"""Columns whose values are AMQP field tables."""


class Listing(NamedTuple):
    """One kind of thing: all that there are, and what each column says of one.

    `things` raises AdministrationError when it is called. What it gives may be gone through while the broker goes on.
    """

    things: Callable[[Administration, Arguments], Iterable[Any]]
    columns: Mapping[str, Column]


class Place(NamedTuple):
    """Something in a virtual host of a node."""

    node: NodeIdentity
    vhost: str
    it: Any


def rows(listing: Listing, administration: Administration, arguments: Arguments) -> Iterator[Row]:
    """Each thing with the `columns` that were asked for, or with all.

    With `typed`, field tables are lists of [name, type, value]; with `lenient`, columns that there are not are empty
    texts. Raises AdministrationError at once.
    """
    chosen = _chosen(listing.columns, arguments)
    show = typed if arguments.flag("typed") else plain
    things = listing.things(administration, arguments)
    return (
        {name: show(column(thing)) if name in FIELD_TABLES else column(thing) for name, column in chosen.items()}
        for thing in things
    )


def _chosen(columns: Mapping[str, Column], arguments: Arguments) -> Mapping[str, Column]:
    wanted = arguments.texts("columns") if arguments.given("columns") else ()
    unknown = [name for name in wanted if name not in columns]
    if unknown and not arguments.flag("lenient"):
        raise invalid(f"there is no column {unknown[0]}; known: {', '.join(columns)}")
    return {name: columns.get(name, _nothing) for name in wanted} or columns


def _nothing(thing: Any) -> str:
    return ""


def cells(*names: str) -> dict[str, Column]:
    """Columns of things that are rows already."""
    return {name: itemgetter(name) for name in names}


def in_vhosts(items: Callable[[VHost], Iterable[Any]]) -> Callable[[Administration, Arguments], Iterator[Place]]:
    """What `items` says there is in a virtual host: in the one that is named, or in one after the other.

    `items` gives copies, which may be gone through while the broker goes on.
    """

    def places(administration: Administration, arguments: Arguments) -> Iterator[Place]:
        node, chosen = administration.node, vhosts(administration, arguments)
        return (Place(node, vhost.name, item) for vhost in chosen for item in items(vhost))

    return places


def vhosts(administration: Administration, arguments: Arguments) -> list[VHost]:
    """The virtual host that is named, or all. Raises AdministrationError `not_found`."""
    name = arguments.optional("vhost")
    return list(administration.broker.vhosts.values()) if name is None else [administration.vhost(name)]
