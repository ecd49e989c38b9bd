"""What is due when, in milliseconds of the broker's clock: expiry, leases, delays, what is tried again."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from itertools import count

log = logging.getLogger("leveret.timers")


class Timers:
    """Callbacks by due time. Whoever no longer wants one lets it run and does nothing in it."""

    def __init__(self) -> None:
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self.changed: Callable[[], None] = _nothing

    def at(self, due: int, callback: Callable[[], None]) -> None:
        """Call back at `due` milliseconds since the epoch, or as soon after as a turn allows."""
        heapq.heappush(self._due, (due, next(self._order), callback))
        if self._due[0][0] == due:
            self.changed()

    def next_due(self) -> int | None:
        """When the next callback is due."""
        return self._due[0][0] if self._due else None

    def run(self, now: int) -> None:
        """Call back everything that is due."""
        while self._due and self._due[0][0] <= now:
            _, _, callback = heapq.heappop(self._due)
            try:
                callback()
            except Exception:  # one queue's trouble is not the broker's
                log.exception("a timer failed")


def _nothing() -> None:
    """Nobody is waiting for timers yet."""
