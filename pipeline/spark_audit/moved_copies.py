"""Copies at another position than the number of their message: they are judged beside their first place.

A quorum queue appends a returned message again, so a message goes through a chain of positions, each of which names the
one before. A chain may cross blocks of numbers: here each copy in it finds the number that the chain begins with, queue
by queue, and goes to the block of that number. Logs without moves have no links, and skip this.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.audit.reduction import Reduced
from pipeline.spark_audit.number_blocks import Piece, arrow_stream, pieces

LINKS = pa.schema(
    [
        *((name, pa.string()) for name in ("node", "vhost", "queue")),
        ("position", pa.int64()),
        ("number", pa.int64()),
    ]
)
"""A copy at `position` was `number` before: a position in its queue, or the number of its message."""
HOPS_MAX = 64
"""Steps of following links, each of which doubles the distance: a damaged log may have circles."""


def links(reduced: Reduced) -> pa.Table:
    """Rows of LINKS of reduced events."""
    numbers, positions = (reduced.copies.column(name).to_numpy() for name in ("msg_id", "position"))
    rows = np.flatnonzero((numbers >= 0) & (numbers != positions))
    places = reduced.copies.column("place").to_numpy()[rows]
    vhosts, queues = (pa.array([place[at] for place in reduced.places], pa.string()) for at in (0, 1))
    columns = [
        pa.repeat(pa.scalar(reduced.node), len(rows)),
        vhosts.take(pa.array(places)),
        queues.take(pa.array(places)),
        pa.array(positions[rows]),
        pa.array(numbers[rows]),
    ]
    return pa.table(columns, schema=LINKS)


def first_numbers(of_queue: pa.Table, block_bits: int) -> Iterator[tuple[int, bytes]]:
    """Follow the links of one queue; yields by block of position the links from there straight to the begin."""
    position, number = (of_queue.column(name).to_numpy() for name in ("position", "number"))
    order = np.argsort(position, kind="stable")
    position, number = position[order], number[order]
    for _ in range(HOPS_MAX):
        at = np.minimum(np.searchsorted(position, number), len(position) - 1)
        further = (position[at] == number) & (number[at] != number)
        if not further.any():
            break
        number = np.where(further, number[at], number)
    rows = of_queue.take(pa.array(order)).set_column(LINKS.get_field_index("number"), "number", pa.array(number))
    blocks = position >> block_bits
    for block in np.unique(blocks).tolist():
        yield int(block), arrow_stream(rows.filter(pa.array(blocks == block)))


def moved_pieces(reduced: Reduced, firsts: pa.Table, block_bits: int) -> Iterator[Piece]:
    """Cut reduced events of a block again, with copies in the blocks where their links begin."""
    position = reduced.copies.column("position").to_numpy()
    place = reduced.copies.column("place").to_numpy()
    to = position.copy()
    for number, (vhost, queue) in enumerate(reduced.places):
        mine = _of_place(firsts, vhost, queue)
        rows = np.flatnonzero(place == number)
        if len(mine[0]) and len(rows):
            at = np.minimum(np.searchsorted(mine[0], position[rows]), len(mine[0]) - 1)
            to[rows] = np.where(mine[0][at] == position[rows], mine[1][at], position[rows])
    yield from pieces(reduced, block_bits, to)


def _of_place(firsts: pa.Table, vhost: str, queue: str) -> tuple[Any, Any]:
    mine = firsts.filter(pc.and_(pc.equal(firsts.column("vhost"), vhost), pc.equal(firsts.column("queue"), queue)))
    position, number = (mine.column(name).to_numpy() for name in ("position", "number"))
    order = np.argsort(position, kind="stable")
    return position[order], number[order]
