"""The audit of a log: its parts reduced, wherever that is done, put together by node, and judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.log_coverage import Boot, Damage, Gap, coverage
from pipeline.audit.message_verdicts import Counts
from pipeline.audit.reduction import NEEDED, Place, Reduced, reduced
from pipeline.audit.verdict_table import SCHEMA
from pipeline.audit.verdicts import Node, judged
from pipeline.event_parts import Part


class ReducedPart(NamedTuple):
    """What is left of a part, and its name if it is damaged."""

    batches: list[Reduced]
    damage: Damage | None


class Audited(NamedTuple):
    """A judged log: rows of `pipeline.audit.verdicts.SCHEMA`; for each gap the copies that are unknown for it."""

    rows: pa.Table
    boots: list[Boot]
    gaps: list[Gap]
    in_doubt: list[int]
    counts: Counts


def reduce(part: Part) -> ReducedPart:
    """Reduce a part. Raises OSError, and SegmentError for a segment of an unknown version."""
    name, damaged = part.name, list[int]()
    batches = [reduced(name.node, batch) for batch in part.batches(NEEDED, damaged)]
    damage = Damage(name.node, str(name), name.boot, name.first, name.last) if damaged else None
    return ReducedPart(batches, damage)


def audit(parts: Iterable[ReducedPart]) -> Audited:
    """Judge what parts of a log have been reduced to."""
    batches, damaged = defaultdict[str, list[Reduced]](list), list[Damage]()
    for part in parts:
        for each in part.batches:
            batches[each.node].append(each)
        damaged += [part.damage] if part.damage else []
    found = Audited(SCHEMA.empty_table(), [], [], [], Counts())
    for name in sorted(batches):
        node = _node(name, batches.pop(name), [each for each in damaged if each.node == name])
        one, (boots, gaps) = judged(node), node.coverage
        found = Audited(
            pa.concat_tables([found.rows, one.rows]),
            found.boots + boots,
            found.gaps + gaps,
            found.in_doubt + [one.in_doubt.get(gap.moment, 0) if gap.doubtful else 0 for gap in gaps],
            Counts(*map(sum, zip(found.counts, one.counts, strict=True))),
        )
    return found


def _node(name: str, batches: list[Reduced], damaged: list[Damage]) -> Node:
    """All batches of a node in one, their places numbered anew."""
    places: dict[Place, int] = {}
    copies = []
    for each in batches:
        numbers = np.array([places.setdefault(place, len(places)) for place in each.places], np.int32)
        at = each.copies.schema.get_field_index("place")
        copies.append(each.copies.set_column(at, "place", pa.array(numbers[each.copies.column(at).to_numpy()])))
    told = [one for each in batches for one in each.told]
    stretches = [one for each in batches for one in each.stretches]
    messages = pa.concat_tables([each.messages for each in batches])
    return Node(name, list(places), pa.concat_tables(copies), messages, told, coverage(name, stretches, told, damaged))
