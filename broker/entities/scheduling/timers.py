"""Timers, in milliseconds of the broker's clock: message and queue expiry, delayed messages, retries."""

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
"""Above this number of callbacks, those of deleted owners are removed each time the number has doubled."""


class Owner(Protocol):
    """A queue or consumer that a callback is for."""

    @property
    def deleted(self) -> bool:
        """It is over, and its callbacks do nothing."""


class Timers:
    """Callbacks by due time. There is no cancelling: a callback that is no longer needed does nothing.

    A callback that may be far off names its owner, so that a deleted owner is freed before that time. `wake` is called
    when a new callback is due before all others, for a loop that sleeps until the next one. One run of due callbacks
    takes at most `seconds_max`; the rest stay due.
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
        """Return when the next callback is due, or None if there is none."""
        return self._due[0][0] if self._due else None

    def set_back(self, milliseconds: int) -> None:
        """Move all due times back with the clock, so that periodic callbacks go on.

        A callback that is called too early reads the clock and waits again.
        """
        self._due = [(due - milliseconds, order, callback, owner) for due, order, callback, owner in self._due]

    def run(self, now: int) -> None:
        """Run due callbacks for at most `seconds_max`; at least one."""
        until = monotonic() + self._seconds_max
        while self._due and self._due[0][0] <= now:
            _, _, callback, _ = heapq.heappop(self._due)
            try:
                callback()
            except Exception:  # one queue's timer must not end the broker
                log.exception("a timer failed")
            if monotonic() > until:
                break
