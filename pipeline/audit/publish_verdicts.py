"""Verdicts on published messages: how many were confirmed, and which are missing in a queue they had to reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipeline.audit.bound_queues import Bindings, Span
from pipeline.audit.log_timeline import NEARBY_EVENTS, LogTimeline, boot_of, where
from pipeline.audit.message_rules import VIOLATIONS, Answers, answers, violations
from pipeline.audit.reduction import NEVER, Groups, Place, Route
from pipeline.audit.seen_moments import OF_MESSAGES
from pipeline.audit.verdict_table import LOST, OF_MESSAGE, SCHEMA, VERDICTS


class Counts(NamedTuple):
    """Messages that clients published: confirmed ones; of these those that were returned, and those that reached no
    queue and were not returned.
    """

    published: int = 0
    confirmed: int = 0
    returned: int = 0
    unroutable: int = 0


class Messages:
    """One row for each message."""

    def __init__(self, node: str, messages: pa.Table, timeline: LogTimeline, forgotten: Callable[[Any], Any]) -> None:
        self._node = node
        self._table = messages
        self._timeline = timeline
        self._forgotten = forgotten
        self._groups = Groups(messages.column("msg_id").to_numpy())
        self._own = self._groups.max(self._column("own"))
        self._published = self._groups.min(self._column("published"))
        self._confirm_us = self._groups.min(self._column("confirm_us"))
        self._routes = self._groups.sum(self._column("routes"))
        self._queues = self._groups.max(self._column("queues"))
        self._route = self._groups.max(self._column("route"))
        self._numbers = self._column("msg_id")[self._groups.starts]
        self._publish_us = self._groups.min(self._column("publish_us"))
        self._sizes = self._groups.max(self._column("size_bytes"))

    def about(self, row: int) -> dict[str, Any]:
        """Columns of SCHEMA on a message: its size, the properties in the log, and where it is seen there."""
        size, properties = int(self._sizes[row]), self._table.column("properties")
        begin = self._groups.starts[row]
        end = self._groups.starts[row + 1] if row + 1 < len(self._groups) else len(self._groups.order)
        values = (properties[int(at)].as_py() for at in self._groups.order[begin:end])
        return {
            "size_bytes": None if size < 0 else size,
            "properties": next((value for value in values if value is not None), None),
            "seen": self._seen(slice(begin, end)),
        }

    def _seen(self, rows: slice) -> list[int]:
        moments = np.concatenate([self._column(name)[rows] for name in (*OF_MESSAGES, "routed_last")])
        return np.repeat(np.unique(moments[(moments >= 0) & (moments < NEVER)]), 2).tolist()

    def _column(self, name: str) -> Any:
        return self._table.column(name).to_numpy()[self._groups.order]

    def judge(
        self, bindings: Bindings, routes: Sequence[Route], arrived: Callable[[Place], Any]
    ) -> tuple[Counts, pa.Table]:
        """Count the messages; returns also a row of SCHEMA for each queue that one has not reached.

        The row has no queue if only the number of queues is known. `arrived(place)` returns the messages that entered a
        queue.
        """
        until = np.minimum(self._groups.min(self._column("confirmed")), self._published + NEARBY_EVENTS)
        known = (self._published < NEVER) & ~self._timeline.torn(self._published, until)
        confirmed = (self._confirm_us < NEVER) & (self._published < NEVER) & ~self._own
        nowhere = known & confirmed & np.where(self._queues < 0, self._routes == 0, self._queues == 0)
        returned = self._groups.max(self._column("returns")) > 0
        sums = ((self._published < NEVER) & ~self._own, confirmed, nowhere & returned, nowhere & ~returned)
        # A full queue may reject a dead letter; a client's message that it rejects is not confirmed.
        told = known & self._timeline.complete(boot_of(self._published), self._published)
        named = self._never_came(np.flatnonzero(told & confirmed & (self._route >= 0)), bindings, routes, arrived)
        missing = known & confirmed & (self._routes < self._queues)
        missing[[row for row, _, _ in named]] = False
        rows = [self._missing(row, span, route) for row, span, route in named]
        rows += [self._missing(row) for row in np.flatnonzero(missing).tolist()]
        rows += self._violations()
        return Counts(*(int(each.sum()) for each in sums)), pa.Table.from_pylist(rows, SCHEMA)

    def _never_came(
        self, rows: Any, bindings: Bindings, routes: Sequence[Route], arrived: Callable[[Place], Any]
    ) -> list[tuple[int, Span, Route]]:
        """Messages that did not enter a queue bound for them, with the span of the binding."""
        rows = rows[np.lexsort((self._published[rows], self._route[rows]))]
        moments, wanted = self._published[rows], defaultdict[Place, list[tuple[Any, Span, Route]]](list)
        for number in self._judged(np.unique(self._route[rows]).tolist(), bindings, routes):
            begin, end = np.searchsorted(self._route[rows], [number, number + 1])
            for span in bindings.spans(routes[number]):
                mine = rows[slice(*(begin + np.searchsorted(moments[begin:end], [span.since, span.until])))]
                if len(mine):
                    wanted[span.place].append((mine, span, routes[number]))
        found = []
        for place, spans in wanted.items():
            came = arrived(place)
            for mine, span, route in spans:
                lacking = mine[~np.isin(self._numbers[mine], came)]
                found += [(row, span, route) for row in lacking.tolist()]
        return found

    def _judged(self, numbers: Sequence[int], bindings: Bindings, routes: Sequence[Route]) -> Iterator[int]:
        """Yield the routes of exchanges whose bindings can be compared with all their routes."""
        of_exchanges = defaultdict[tuple[str, str], list[int]](list)
        for number in numbers:
            of_exchanges[routes[number][:2]].append(number)
        for mine in of_exchanges.values():
            if bindings.judges([routes[number] for number in mine]):
                yield from mine

    def _violations(self) -> list[dict[str, Any]]:
        """Rows of SCHEMA for messages that were published or answered as must not be."""
        found = answers(self._groups, self._column)
        guilty = np.stack(violations(found, self._timeline, self._forgotten(found.number)), axis=1)
        rows = []
        for row in np.flatnonzero(guilty.any(axis=1)).tolist():
            moments = sorted(int(each[row]) for each in (found.published, found.answered) if each[row] < NEVER)
            times = {"publish_ts": int(self._publish_us[row]), "confirm_ts": int(self._confirm_us[row])}
            rows.append(
                {
                    "node": self._node,
                    "msg_id": int(self._numbers[row]),
                    "verdict": VERDICTS[OF_MESSAGE],
                    "violations": [VIOLATIONS[at] for at in np.flatnonzero(guilty[row]).tolist()],
                    **{name: time for name, time in times.items() if time < NEVER},
                    "boots": sorted({int(boot_of(moment)) for moment in moments}),
                    "first": moments[0],
                    "last": moments[-1],
                    "evidence": _counted(found, row),
                    **self.about(row),
                }
            )
        return rows

    def _missing(self, row: int, span: Span | None = None, route: Route | None = None) -> dict[str, Any]:
        """Build a row of SCHEMA for a message that is missing in a queue: in that of `span`, if it is known."""
        number, moment = int(self._numbers[row]), int(self._published[row])
        found = {
            "node": self._node,
            "msg_id": number,
            "verdict": VERDICTS[LOST],
            "violations": [],
            "publish_ts": int(self._publish_us[row]),
            "confirm_ts": int(self._confirm_us[row]),
            "boots": [int(boot_of(moment))],
            "first": moment,
            "last": moment,
            **self.about(row),
        }
        if span is None or route is None:
            evidence = f"routed to {self._queues[row]} queues at {where(moment)}, came into {self._routes[row]}"
            return {**found, "evidence": evidence}
        evidence = f"never came, bound to exchange '{route.exchange}' for key '{route.key}' since {where(span.since)}"
        place = {"vhost": span.place[0], "queue": span.place[1], "position": number}
        return {**found, **place, "evidence": evidence}


def _counted(found: Answers, row: int) -> str:
    names = ("publishes", "confirms", "nacks", "returns", "routes")
    counts = [f"{name} {getattr(found, name)[row]}" for name in names]
    at = [f"{name} at {where(moment)}" for name, moment in _firsts(found, row) if moment < NEVER]
    return "; ".join([", ".join(counts), *at])


def _firsts(found: Answers, row: int) -> list[tuple[str, int]]:
    return [("first publish", int(found.published[row])), ("first answer", int(found.answered[row]))]
