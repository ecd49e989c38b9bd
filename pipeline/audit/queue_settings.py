"""Arguments in force of queues over time, by their declarations and by the policies applied to them.

A declaration of an earlier release has no arguments: then nothing is said about its queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.audit.reduction import NOWHERE, Place, Told, name_number

Arguments = Mapping[str, Any]
DELAYS, TTL, LENGTH, RETURNS, WAITS, DEAD_TO = range(6)
"""Columns: delays messages, has a time to live, a length limit, a delivery limit, keeps dead letters until a queue has
taken them, number of the exchange of its dead letters."""


def _of(told: Told) -> tuple[int, ...]:
    """Return the columns of a declaration or policy."""
    arguments: Arguments = told.detail["arguments"]
    exchange = arguments.get("dead-letter-exchange")
    return (
        told.detail.get("type") == "delay",
        "message-ttl" in arguments,
        "max-length" in arguments or "max-length-bytes" in arguments,
        "delivery-limit" in arguments,
        arguments.get("dead-letter-strategy") == "at-least-once",
        NOWHERE if exchange is None else name_number(exchange),
    )


class QueueSettings:
    """The arguments in force of all queues of a node."""

    def __init__(self, told: Iterable[Told], places: Sequence[Place]) -> None:
        numbers = {place: number for number, place in enumerate(places)}
        found = defaultdict[int, list[tuple[int, tuple[int, ...]]]](list)
        untold = set[int]()
        for each in sorted(told):
            if each.kind in ("declare", "policy") and each.place in numbers:
                number = numbers[each.place]
                if each.detail.get("arguments") is None:
                    untold.add(number)
                else:
                    found[number].append((each.moment, _of(each)))
        self._moments = {number: np.array([each[0] for each in rows]) for number, rows in found.items()}
        self._values = {number: np.array([each[1] for each in rows], np.int64) for number, rows in found.items()}
        self._untold = untold

    def never(self, column: int, place: Any, until: Any) -> Any:
        """True where a queue is known not to have had something, up to a moment."""

        def of_queue(values: Any, _: Any, end: Any) -> Any:
            return (end > 0) & (np.append(0, np.cumsum(values[:, column] > 0))[end] == 0)

        return self._of_queues(place, until >> 40 << 40, until, of_queue, False)

    def dead_to(self, place: Any, since: Any, until: Any) -> tuple[Any, Any]:
        """Return whether a queue is known to have had one dead-letter exchange, or none, all the time; and which."""

        def constant(values: Any, begin: Any, end: Any) -> Any:
            changes = np.append(0, np.cumsum(values[1:, DEAD_TO] != values[:-1, DEAD_TO]))
            known = end > begin
            last, first = np.maximum(end - 1, 0), np.minimum(begin, len(values) - 1)
            return known & (changes[last] == changes[first])

        def current(values: Any, _: Any, end: Any) -> Any:
            return values[np.maximum(end - 1, 0), DEAD_TO]

        known = self._of_queues(place, since, until, constant, False)
        return known, self._of_queues(place, since, until, current, NOWHERE)

    def _of_queues(
        self, place: Any, since: Any, until: Any, answer: Callable[[Any, Any, Any], Any], otherwise: Any
    ) -> Any:
        """Answer for each queue: `answer(values, begin, end)` has the settings from `begin` to before `end`."""
        result = np.full(len(place), otherwise)
        for number in np.unique(place).tolist():
            if number in self._values and number not in self._untold:
                mine = np.flatnonzero(place == number)
                moments = self._moments[number]
                begin, end = (np.searchsorted(moments, at[mine]) for at in (since, until))
                result[mine] = answer(self._values[number], begin, end)
        return result
