"""Long work, a step of it at a time: others have their turns in between.

The first step is done at once, and that is nearly always all. What is left stands in a line, and each millisecond
one step of one work is done, so that many who have much to do cost the others no more than one of them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from broker.entities.scheduling.future import Future
from broker.entities.scheduling.timers import Timers

log = logging.getLogger("leveret.background_work")

PORTION_STEPS = 256
"""How many steps, of some ten microseconds each, are done in one turn."""


class Work(NamedTuple):
    """What is still to do, and who waits for the end of it."""

    steps: Iterator[object]
    done: Future[None]


class BackgroundWork:
    """The works of a broker that are under way. Each is an iterator: taking its next item does a step."""

    def __init__(self, timers: Timers, now: Callable[[], int]) -> None:
        self._timers = timers
        self._now = now
        self._line: deque[Work] = deque()

    def begin(self, steps: Iterator[object]) -> Future[None]:
        """Do the first step; what is returned is settled once everything is done."""
        work = Work(steps, Future())
        if not _advance(work):
            self._line.append(work)
            if len(self._line) == 1:
                self._next_later()
        return work.done

    def finish(self) -> None:
        """Do everything that is left: there will be no further turns."""
        while self._line:
            self._next()

    def _next_later(self) -> None:
        self._timers.at(self._now() + 1, self._next)

    def _next(self) -> None:
        if not self._line:
            return
        work = self._line.popleft()
        if not _advance(work):
            self._line.append(work)
        if self._line:
            self._next_later()


def _advance(work: Work) -> bool:
    """Do a step. True if that was the last one."""
    try:
        if sum(1 for _ in islice(work.steps, PORTION_STEPS)) == PORTION_STEPS:
            return False
    except Exception:  # one client's trouble is not the broker's
        log.exception("background work failed; its remaining steps are skipped")
    work.done.resolve(None)
    return True
