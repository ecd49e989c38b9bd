"""Copies at another position than the number of their message: they are judged beside their first place.

A quorum queue appends a returned message again, so a message goes through a chain of positions, each of which names the
one before. A chain may cross shares: the links of a queue are followed, and a copy whose chain begins in another share
than its position is judged there, as a *guest*. Most chains stay in their share. Logs without moves skip this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.reduction import Groups, Place, Reduced
from pipeline.spark_audit.number_blocks import arrow_stream, table_of

LINKS = pa.schema([("position", pa.int64()), ("number", pa.int64())])
"""A copy at `position` was `number` before: a position in its queue, or the number of its message."""
GUESTS = pa.schema(
    [
        *((name, pa.string()) for name in ("node", "vhost", "queue")),
        *((name, pa.int64()) for name in ("block", "home", "share")),
        ("copies", pa.binary()),
    ]
)
"""Copies of a queue that are judged in `share`; `home` is the share of their positions, which are in `block`. As an
Arrow stream of LINKS, straight to the number that the chain begins with.
"""
HOPS_MAX = 64
"""Steps of following links, each of which doubles the distance: a damaged log may have circles."""


Ranges = Callable[[str, Any], Any]
"""Returns the shares of numbers of a node, which is given by its name."""


class Guests(NamedTuple):
    """Positions in a queue, ascending, and the shares in which the copies there are judged."""

    position: Any
    share: Any


def links(reduced: Reduced) -> Iterator[tuple[Place, pa.Table]]:
    """Yield the moved copies of reduced events, by queue: rows of LINKS."""
    numbers, positions, places = (reduced.copies.column(name).to_numpy() for name in ("msg_id", "position", "place"))
    moved = np.flatnonzero((numbers >= 0) & (numbers != positions))
    for place in np.unique(places[moved]).tolist():
        rows = moved[places[moved] == place]
        yield reduced.places[place], pa.table([positions[rows], numbers[rows]], schema=LINKS)


def guests(ranges: Ranges, block_bits: int, key: tuple[Any, ...], of_queue: pa.Table) -> pa.Table:
    """Follow the links of a queue, given by its node, virtual host and name: rows of GUESTS."""
    node, vhost, queue = (each.as_py() for each in key)
    position, number = _followed(pa.concat_tables(map(table_of, of_queue.column("copies").to_pylist())))
    home, share = ranges(node, position), ranges(node, number)
    away = np.flatnonzero(home != share)
    groups = Groups(position[away] >> block_bits, share[away])
    ends = np.append(groups.starts[1:], len(away))
    found = []
    for begin, end in zip(groups.starts.tolist(), ends.tolist()[: len(groups)], strict=True):
        rows = away[groups.order[begin:end]]
        named = {"node": node, "vhost": vhost, "queue": queue, "block": int(position[rows[0]]) >> block_bits}
        stream = arrow_stream(pa.table([position[rows], number[rows]], schema=LINKS))
        found.append({**named, "home": int(home[rows[0]]), "share": int(share[rows[0]]), "copies": stream})
    return pa.Table.from_pylist(found, GUESTS)


def _followed(of_queue: pa.Table) -> tuple[Any, Any]:
    """Return positions, ascending, and the numbers with which their chains begin."""
    position, number = (of_queue.column(name).to_numpy() for name in LINKS.names)
    order = np.argsort(position, kind="stable")
    position, number = position[order], number[order]
    for _ in range(HOPS_MAX):
        at = np.minimum(np.searchsorted(position, number), len(position) - 1)
        further = (position[at] == number) & (number[at] != number)
        if not further.any():
            break
        number = np.where(further, number[at], number)
    return position, number


def guests_of(node: str, ranges: Ranges, streams: Mapping[Place, list[bytes]]) -> dict[Place, Guests]:
    """Decode the guests that a share has, and its own copies that are guests of others."""
    found = {}
    for place, of_place in streams.items():
        links = pa.concat_tables(map(table_of, of_place)).sort_by("position")
        position, number = (links.column(name).to_numpy() for name in LINKS.names)
        found[place] = Guests(position, ranges(node, number))
    return found


def judged_in(share: int, reduced: Reduced, ranges: Ranges, guests: Mapping[Place, Guests]) -> Reduced:
    """Choose the copies and messages of reduced events that are judged in a share."""
    position, place = (reduced.copies.column(name).to_numpy() for name in ("position", "place"))
    to = ranges(reduced.node, position)
    for number, name in enumerate(reduced.places):
        if name in guests:
            rows, known = np.flatnonzero(place == number), guests[name]
            at = np.minimum(np.searchsorted(known.position, position[rows]), len(known.position) - 1)
            to[rows] = np.where(known.position[at] == position[rows], known.share[at], to[rows])
    sent = ranges(reduced.node, reduced.messages.column("msg_id").to_numpy())
    return reduced._replace(
        copies=reduced.copies.filter(pa.array(to == share)), messages=reduced.messages.filter(pa.array(sent == share))
    )
