"""What is due when, in milliseconds of the broker's clock: expiry, queue expiry, delays, what is tried again."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from itertools import count
from math import inf
from time import monotonic
from typing import Protocol

log = logging.getLogger("leveret.timers")

CROWDED = 1024
"""From so many callbacks on, those of owners that are gone are looked for whenever their number has doubled."""


class Owner(Protocol):
    """A queue, for whose sake something is done later."""

    deleted: bool


class Timers:
    """Callbacks by due time. There is no cancelling: a callback that is no longer wanted does nothing.

    One that may be far off names its owner: deleted owners, and all that they hold, do not wait for that time.
    `wake` is called when something is due before everything else, for a loop that sleeps until then. Callbacks are
    called for `seconds_max` at one time; those left over are due still.
    """

    def __init__(self, wake: Callable[[], None], seconds_max: float = inf) -> None:
        self._due: list[tuple[int, int, Callable[[], None], Owner | None]] = []
        self._order = count()
        self._crowded = CROWDED
        self._wake = wake
        self._seconds_max = seconds_max

    def __len__(self) -> int:
        return len(self._due)

    def at(self, due: int, callback: Callable[[], None], owner: Owner | None = None) -> None:
        """Call back at `due` milliseconds since the epoch, or as soon after as a turn allows."""
        heapq.heappush(self._due, (due, next(self._order), callback, owner))
        if len(self._due) > self._crowded:
            self._forget_deleted()
        if self._due and self._due[0][0] == due:
            self._wake()

    def _forget_deleted(self) -> None:
        self._due = [timer for timer in self._due if timer[3] is None or not timer[3].deleted]
        heapq.heapify(self._due)
        self._crowded = max(CROWDED, 2 * len(self._due))

    def next_due(self) -> int | None:
        """When the next callback is due."""
        return self._due[0][0] if self._due else None

    def set_back(self, milliseconds: int) -> None:
        """The clock was set back: what comes again and again does so from that time on. Whatever is called too early
        looks at the clock, and waits once more.
        """
        self._due = [(due - milliseconds, order, callback, owner) for due, order, callback, owner in self._due]

    def run(self, now: int) -> None:
        """Call back what is due, as long as it may take at one time; one at least."""
        until = monotonic() + self._seconds_max
        while self._due and self._due[0][0] <= now:
            _, _, callback, _ = heapq.heappop(self._due)
            try:
                callback()
            except Exception:  # one queue's trouble is not the broker's
                log.exception("a timer failed")
            if monotonic() > until:
                break
