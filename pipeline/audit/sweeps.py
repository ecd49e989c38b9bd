"""Ends of many messages at once: purges, and deletions of queues.

A purge is on disk with the messages. A deletion is written with the definitions, of which the record of a boot says
nothing: it may have come undone at a kill although later changes of messages have not. Then the next start recovers the
queue, with its messages, and declares it before its full record. What clients declare until then counts as recovered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pipeline.audit.log_coverage import Boot, moment
from pipeline.audit.reduction import NEVER, SEQ_BITS, Place, Told


class Sweep(NamedTuple):
    """A purge or deletion at a moment, of all positions below one but those `kept`; `undone`: perhaps by a kill."""

    moment: int
    kind: str
    below: int
    kept: list[int]
    undone: bool


def sweeps(told: Iterable[Told], boots: Iterable[Boot]) -> dict[Place, list[Sweep]]:
    """Return the purges and deletions of each queue, in their order."""
    ordered = sorted(told)
    killed = {boot.boot for boot in boots if boot.open_end}
    snapshots = [each.moment for each in ordered if each.kind == "snapshot"]
    declared = defaultdict[Place, list[int]](list)
    for each in ordered:
        if each.kind == "declare":
            declared[each.place].append(each.moment)
    found = defaultdict[Place, list[Sweep]](list)
    for each in ordered:
        if each.kind in ("purge", "delete"):
            boot = each.moment >> SEQ_BITS
            undone = each.kind == "delete" and boot in killed and _recovered(declared[each.place], boot, snapshots)
            found[each.place].append(Sweep(each.moment, each.kind, each.detail["below"], each.detail["kept"], undone))
    return found


def _recovered(declared: list[int], boot: int, snapshots: list[int]) -> bool:
    """Return whether a queue was declared behind a boot, before the first full record of a start."""
    since = moment(boot + 1, 0)
    first = bisect_left(snapshots, since)
    until = snapshots[first] if first < len(snapshots) else NEVER
    return bisect_left(declared, since) < bisect_left(declared, until)
