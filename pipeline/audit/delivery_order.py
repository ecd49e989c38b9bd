"""The order of first deliveries: a copy must not be delivered for the first time after one at a higher position."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pipeline.audit.reduction import NEVER, Groups, Sorted


class Deliveries(NamedTuple):
    """Copies that were delivered as new in a boot, as columns: moments of the first such delivery and of the last.

    A message that was not acknowledged returns to its queue at a start, so each boot is judged by itself.
    """

    place: Any
    boot: Any
    position: Any
    first: Any
    last: Any


class Overtakers(NamedTuple):
    """Copies that are judged elsewhere, as columns: they may have overtaken copies here, and are not judged."""

    place: Any
    boot: Any
    position: Any
    first: Any


NOBODY = Overtakers(*(np.zeros(0, np.int64) for _ in Overtakers._fields))


def overtaken(mine: Deliveries, others: Overtakers = NOBODY) -> Any:
    """Return the rows of `mine` whose last new delivery came after the first one of a copy at a higher position."""
    place, boot, position, first = (np.append(one, other) for one, other in zip(mine[:4], others, strict=True))
    last = np.append(mine.last, np.full(len(others.place), -1))
    # From the highest position down: the minimum of the deliveries above. Ranks keep queues and boots apart.
    groups = Groups(place, boot, -position)
    order = groups.order
    stays = Sorted(place[order], boot[order])
    moments = np.sort(first)
    apart = stays.of_rows * len(order)
    soonest = np.minimum.accumulate(np.searchsorted(moments, first[order]) - apart) + apart
    above = np.append(NEVER, moments[soonest])[:-1]
    above[stays.starts] = NEVER
    return np.sort(order[last[order] > above])
