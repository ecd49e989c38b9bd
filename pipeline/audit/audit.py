"""The audit of a log: its parts reduced, wherever that is done, put together by node, and judged."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from pipeline.audit.copy_verdicts import Judged, Node, judged
from pipeline.audit.delivery_order import NOBODY, Overtakers
from pipeline.audit.log_coverage import Boot, Coverage, Damage, Gap, coverage
from pipeline.audit.publish_verdicts import Counts
from pipeline.audit.reduction import AUDITED, Bound, Place, Reduced, Route, Stretch, Told, is_of_boot, reduced
from pipeline.audit.verdict_table import SCHEMA
from pipeline.event_parts import Part

Name = TypeVar("Name", Place, Route)


class ReducedPart(NamedTuple):
    """A reduced part of a log, and its segment's name if that is damaged."""

    batches: list[Reduced]
    damage: Damage | None


class NodeFacts(NamedTuple):
    """Facts on a node as a whole: the few events of its log that each share of its messages is judged by.

    `forgotten`: by boot, the number up to which messages that are over may be missing (`spark_audit.open_messages`).
    """

    name: str
    bound: list[Bound]
    told: list[Told]
    coverage: Coverage
    forgotten: Mapping[int, int] = {}


class Audited(NamedTuple):
    """A judged log: rows of `verdict_table.SCHEMA`; `in_doubt`: for each gap the copies that are unknown due to it."""

    rows: pa.Table
    boots: list[Boot]
    gaps: list[Gap]
    in_doubt: list[int]
    counts: Counts


def reduce(part: Part) -> ReducedPart:
    """Reduce a part. Raises OSError, and SegmentError for a segment of an unknown version."""
    name, damaged = part.name, list[int]()
    batches = []
    with _uncollected():
        for batch in part.batches(AUDITED, damaged):
            if is_of_boot(batch, name.boot):
                batches.append(reduced(name.node, batch))
            else:
                damaged.append(0)
    damage = Damage(name.node, str(name), name.boot, name.first, name.last) if damaged else None
    return ReducedPart(batches, damage)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Spare Python's search for cycles: decoded records have none, and it takes a fourth of the time of decoding."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def audit(parts: Iterable[ReducedPart]) -> Audited:
    """Judge a log by its reduced parts."""
    batches, damaged = defaultdict[str, list[Reduced]](list), list[Damage]()
    for part in parts:
        for each in part.batches:
            batches[each.node].append(each)
        damaged += [part.damage] if part.damage else []
    found = Audited(SCHEMA.empty_table(), [], [], [], Counts())
    for name in sorted({*batches, *(each.node for each in damaged)}):
        of_node = batches.pop(name, [])
        facts = facts_of(
            name,
            [one for each in of_node for one in each.bound],
            [one for each in of_node for one in each.told],
            [one for each in of_node for one in each.stretches],
            [each for each in damaged if each.node == name],
        )
        found = _joined(found, facts, judged(share_of(facts, of_node)) if of_node else None)
    return found


def _joined(found: Audited, facts: NodeFacts, one: Judged | None) -> Audited:
    """Add a node's judgement; None: not an event of it can be read."""
    boots, gaps = facts.coverage
    if one is None:
        return found._replace(gaps=found.gaps + gaps, in_doubt=found.in_doubt + [0] * len(gaps))
    return Audited(
        pa.concat_tables([found.rows, one.rows]),
        found.boots + boots,
        found.gaps + gaps,
        found.in_doubt + [one.in_doubt.get(gap.moment, 0) if gap.doubtful else 0 for gap in gaps],
        Counts(*map(sum, zip(found.counts, one.counts, strict=True))),
    )


def facts_of(
    name: str, bound: list[Bound], told: list[Told], stretches: Iterable[Stretch], damaged: Iterable[Damage]
) -> NodeFacts:
    """Put together what a log says of a node as a whole."""
    return NodeFacts(name, bound, told, coverage(name, stretches, told, damaged))


def share_of(facts: NodeFacts, batches: Sequence[Reduced], overtakers: Overtakers = NOBODY) -> Node:
    """Merge batches of a node, all of them or those of some messages; places and routes are renumbered."""
    places, routes = dict[Place, int](), dict[Route, int]()
    copies = [_renumbered(each.copies, "place", each.places, places) for each in batches]
    messages = pa.concat_tables([_renumbered(each.messages, "route", each.routes, routes) for each in batches])
    return Node(
        facts.name,
        list(places),
        pa.concat_tables(copies),
        list(routes),
        messages,
        facts.bound,
        facts.told,
        facts.coverage,
        overtakers,
        facts.forgotten,
    )


def _renumbered(rows: pa.Table, column: str, names: Sequence[Name], known: dict[Name, int]) -> pa.Table:
    """Renumber a column of indices into `names` (-1: none) as indices into `known`."""
    numbers = np.array([*(known.setdefault(name, len(known)) for name in names), -1], np.int32)
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, column, pa.array(numbers[rows.column(at).to_numpy()]))
