"""Arguments in force of queues over time, by their declarations and by the policies applied to them.

A declaration of an earlier release has no arguments: then nothing is said about its queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.audit.log_timeline import boot_of
from pipeline.audit.reduction import NOWHERE, Place, Told, name_number

Arguments = Mapping[str, Any]
DELAYS, TTL, LENGTH, RETURNS, WAITS, QUORUM, DURABLE, GONE, DEAD_TO, DEAD_KEY = range(10)
"""Columns: delays messages, has a time to live, drops messages by a length limit, has a delivery limit, keeps dead
letters until a queue has taken them, is a quorum queue, survives restarts, was deleted; numbers of the exchange of its
dead letters and of their routing key."""
DELETED = (0,) * GONE + (1, NOWHERE, NOWHERE)
REFUSALS = {"classic": ("reject-publish", "reject-publish-dlx"), "quorum": ("reject-publish",)}
"""Overflow by which a queue of a type refuses new messages, and drops none."""


def _refuses(arguments: Arguments, declared: Mapping[str, Any]) -> bool:
    return arguments.get("overflow") in REFUSALS.get(declared.get("type", ""), ())


def _of(arguments: Arguments, declared: Mapping[str, Any], *, refuses: bool) -> tuple[int, ...]:
    """Return the columns of a queue with these arguments in force; `refuses`: when it is full."""
    kind = declared.get("type", "")
    limited = "max-length" in arguments or "max-length-bytes" in arguments
    exchange, key = (arguments.get(f"dead-letter-{name}") for name in ("exchange", "routing-key"))
    return (
        kind == "delay",
        "message-ttl" in arguments,
        limited and not refuses,
        "delivery-limit" in arguments,
        arguments.get("dead-letter-strategy") == "at-least-once",
        kind == "quorum",
        bool(declared.get("durable")),
        0,
        NOWHERE if exchange is None else name_number(exchange),
        NOWHERE if key is None else name_number(key),
    )


def _in_force(of_queue: Iterable[Told]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the moments and columns of a queue's settings; nothing if a declaration does not tell them."""
    rows, declared, refused = list[tuple[int, tuple[int, ...]]](), dict[str, Any](), True
    for each in of_queue:
        if each.kind == "delete":
            rows.append((each.moment, DELETED))
            continue
        arguments = each.detail.get("arguments")
        if arguments is None:
            return []
        if each.kind == "declare":
            declared, refused = each.detail, True
        # As in RabbitMQ, a policy by which a classic queue is to refuse drops once what is too much.
        refuses = _refuses(arguments, declared)
        told = _of(arguments, declared, refuses=refuses and (refused or declared.get("type") != "classic"))
        rows.append((each.moment, told))
        refused = refuses
    return rows if declared else []


class QueueSettings:
    """The arguments in force of all queues of a node."""

    def __init__(self, told: Iterable[Told], places: Sequence[Place]) -> None:
        of_queues = defaultdict[Place, list[Told]](list)
        for each in sorted(told):
            if each.kind in ("declare", "policy", "delete"):
                of_queues[each.place].append(each)
        found = {number: _in_force(of_queues[place]) for number, place in enumerate(places) if place in of_queues}
        self._moments = {number: np.array([each[0] for each in rows]) for number, rows in found.items() if rows}
        self._values = {
            number: np.array([each[1] for each in rows], np.int64) for number, rows in found.items() if rows
        }

    def never(self, column: int, place: Any, until: Any) -> Any:
        """True where a queue is known not to have had something, up to a moment."""
        return self.lacked(column, place, np.zeros_like(until), until)

    def lacked(self, column: int, place: Any, since: Any, until: Any) -> Any:
        """True where a queue is known not to have had something between two moments."""
        return ~self._had(column, np.ones_like(place), place, since, until, unknown=True)

    def had(self, column: int, value: Any, place: Any, since: Any, until: Any) -> Any:
        """True where a queue had a value at any time between two moments, or where that is not known."""
        return self._had(column, value, place, since, until, unknown=True)

    def was(self, column: int, place: Any, at: Any) -> Any:
        """True where a queue is known to have had something at a moment."""
        return self._had(column, np.ones_like(place), place, at, at, unknown=False)

    def _had(self, column: int, value: Any, place: Any, since: Any, until: Any, *, unknown: bool) -> Any:
        """Look for a value among the settings in force; `unknown` is the answer where none is told.

        Each start tells all of them, so those of a boot begin with it.
        """
        result = np.full(len(place), unknown)
        for number in np.unique(place).tolist():
            if number in self._values:
                mine, moments = np.flatnonzero(place == number), self._moments[number]
                values = self._values[number][:, column]
                begin, end = (np.searchsorted(moments, at[mine]) for at in (since, until))
                before = np.maximum(begin - 1, 0)
                begin = np.where((begin > 0) & (boot_of(moments[before]) == boot_of(since[mine])), before, begin)
                known, found = end > begin, np.zeros(len(mine), bool)
                for each in np.unique(value[mine]).tolist():
                    counts = np.append(0, np.cumsum(values == each))
                    found |= (value[mine] == each) & (counts[end] > counts[np.minimum(begin, end)])
                result[mine] = np.where(known, found, unknown)
        return result
