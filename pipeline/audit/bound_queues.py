"""Queues that messages had to reach, by the bindings of their exchanges in the log.

It is a lower bound: queues bound to the exchange itself, for the types that route by the key alone: direct, fanout,
topic, and the default exchange. Bindings between exchanges, alternate exchanges, CC and headers exchanges are ignored.
A binding counts from its event until its removal, within one boot: each start records all bindings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from pipeline.audit.reduction import SEQ_BITS, Bound, Place, Route, Told

JUDGED = ("classic", "quorum")
"""Types of queues that are judged: in others a position does not identify a message."""
LOOKS_MAX = 3_000_000
"""Pairs of routing key and binding to compare at most; an exchange with more is not judged."""
NOT_UTF8 = "\\x"
"""Prefix of a byte that is not UTF-8 in a name. It may also have been published as text: such names are not judged."""
Binding = tuple[str, str, str]
"""Exchange, its type, and binding key."""


class Span(NamedTuple):
    """A queue was bound, behind the event `since` and until the event `until`."""

    place: Place
    since: int
    until: int


class Bindings:
    """Bindings of queues over time, in all boots of a node."""

    def __init__(self, bound: Iterable[Bound], told: Iterable[Told]) -> None:
        self._boot = -1
        self._open: dict[Place, dict[Binding, list[int]]] = {}
        """Bindings of each existing queue: since when, and how many that differ in arguments alone."""
        self._spans = defaultdict[Place, dict[tuple[str, str], list[Span]]](dict)
        """By virtual host and exchange, then by type and key."""
        queues: list[tuple[int, Any, Any]] = [
            (each.moment, self._queue, each) for each in told if each.kind in ("declare", "delete")
        ]
        changes: list[tuple[int, Any, Any]] = [(each.moment, self._binding, each) for each in bound]
        for moment, change, each in sorted([*queues, *changes], key=itemgetter(0)):
            self._begin(moment >> SEQ_BITS)
            change(each)
        self._begin(self._boot + 1)

    def judges(self, routes: Iterable[Route]) -> bool:
        """True if the bindings of an exchange can be compared with these routes in acceptable time."""
        return sum(len(self._spans[route[:2]]) for route in routes) <= LOOKS_MAX

    def spans(self, route: Route) -> Iterator[Span]:
        """Yield the queues that messages of a route had to reach, and when."""
        if NOT_UTF8 in route.exchange:
            return
        for (kind, key), spans in self._spans[route[:2]].items():
            if kind == "fanout" or (NOT_UTF8 not in route.key and _matches(kind, key, route.key)):
                yield from spans

    def _begin(self, boot: int) -> None:
        if boot != self._boot:
            for place in list(self._open):
                self._forget(place, boot << SEQ_BITS)
            self._boot = boot

    def _queue(self, told: Told) -> None:
        self._forget(told.place, told.moment)
        if told.kind == "declare" and told.detail["type"] in JUDGED:
            self._open[told.place] = {("", "direct", told.place[1]): [told.moment, 1]}

    def _binding(self, bound: Bound) -> None:
        binding, place = (bound.exchange, bound.type, bound.key), (bound.vhost, bound.queue)
        if not bound.exchange:  # the virtual host has ended
            for each in [each for each in self._open if each[0] == bound.vhost]:
                self._forget(each, bound.moment)
        elif place in self._open and not bound.ends:
            self._open[place].setdefault(binding, [bound.moment, 0])[1] += 1
        elif binding in self._open.get(place, ()):
            since, count = self._open[place].pop(binding)
            if count > 1:
                self._open[place][binding] = [since, count - 1]
            else:
                self._close(place, binding, since, bound.moment)

    def _forget(self, place: Place, moment: int) -> None:
        for binding, (since, _) in self._open.pop(place, {}).items():
            self._close(place, binding, since, moment)

    def _close(self, place: Place, binding: Binding, since: int, until: int) -> None:
        exchange, kind, key = binding
        if NOT_UTF8 not in key:
            self._spans[place[0], exchange].setdefault((kind, key), []).append(Span(place, since, until))


def _matches(kind: str, key: str, routing_key: str) -> bool:
    if kind == "topic" and ("#" in key or "*" in key):
        return re.fullmatch(_pattern(key), _words(routing_key), re.DOTALL) is not None
    return kind in ("direct", "topic") and key == routing_key


def _words(key: str) -> str:
    """Each word behind a dot; the empty key has none."""
    return f".{key}" if key else ""


def _pattern(key: str) -> str:
    parts = {"*": r"\.[^.]*", "#": r"(?:\.[^.]*)*"}
    return "".join(parts.get(word, rf"\.{re.escape(word)}") for word in key.split("."))
