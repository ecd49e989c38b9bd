"""Long work, a portion of it at a time: others have their turns in between.

The first portion is done at once, and that is nearly always all. What is left stands in a line, and each millisecond
one portion of one work is done, so that many clients with much to do cost the others no more than one of them. Work
that writes waits for the disk while the disk is behind, so that no more of it lies in memory than others' writes may.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from time import monotonic
from typing import NamedTuple

from broker.entities.scheduling.future import Future
from broker.entities.scheduling.timers import Timers

log = logging.getLogger("leveret.background_work")

PORTION_BYTES = 2 << 20
"""How much is done in one turn. All that takes more than one turn is bounded by this, and by nothing else."""

MESSAGE_BYTES = PORTION_BYTES // 1024
"""What a message counts beside its body, so that a portion is 1,024 small messages."""

STEP_COPIES = 128
"""How many copies of dead letters one step makes. One message's copies are made together, however many they are."""

PORTION_STEPS = 256
"""How many steps that do not say what they cost, of some ten microseconds each, are done in one turn."""

_STEP_BYTES = PORTION_BYTES // PORTION_STEPS

Steps = Iterator[int | None]
"""Long work: taking the next item does a step, and says how much it did in bytes, MESSAGE_BYTES for each message
included. None is a step without messages."""


class Work(NamedTuple):
    """What is still to do, and the future that is settled at its end."""

    steps: Steps
    done: Future[None]
    waits: Callable[[], bool] | None


class BackgroundWork:
    """The works of a broker that are under way. A portion takes `seconds_max` at most, or one step.

    `soon` is when the next portion is done: see `Clock.soon`.
    """

    def __init__(self, timers: Timers, soon: Callable[[], int], seconds_max: float = inf) -> None:
        self._timers = timers
        self._soon = soon
        self._seconds_max = seconds_max
        self.works: deque[Work] = deque()
        """What is not done yet, in the order in which it goes on."""
        self._due = False

    @property
    def unfinished(self) -> list[Future[None]]:
        """What is settled when each of the works that are under way is done."""
        return [work.done for work in self.works]

    @property
    def waits(self) -> bool:
        """There is work under way, and all of it waits for the disk."""
        return bool(self.works) and all(map(_has_to_wait, self.works))

    def begin(self, steps: Steps, waits: Callable[[], bool] | None = None, *, later: bool = False) -> Future[None]:
        """Do the first portion, or leave it, too, to a `later` turn; what is returned is settled once all is done.

        While `waits` says so, the work waits for the disk, from its first step on: see `disk_moved`.
        """
        work = Work(steps, Future(), waits)
        if later or _has_to_wait(work) or not self._advance(work):
            self.works.append(work)
            self._next_later()
        return work.done

    def disk_moved(self) -> None:
        """A batch is on disk: what has waited for that may go on."""
        self._next_later()

    def finish(self) -> None:
        """Do everything that is left and never waits for the disk: there will be no further turns."""
        for work in [work for work in self.works if work.waits is None]:
            while not self._advance(work):
                pass
            self.works.remove(work)

    def _next_later(self) -> None:
        if not self._due:
            self._due = True
            self._timers.at(self._soon(), self._next)

    def _next(self) -> None:
        """Do a portion of the first work that need not wait. If all have to, `disk_moved` goes on."""
        self._due = False
        for _ in range(len(self.works)):
            work = self.works.popleft()
            if _has_to_wait(work):
                self.works.append(work)
                continue
            if not self._advance(work):
                self.works.append(work)
            if self.works:
                self._next_later()
            return

    def _advance(self, work: Work) -> bool:
        """Do a portion. True if that was the last one."""
        left, until = PORTION_BYTES, monotonic() + self._seconds_max
        try:
            for done in work.steps:
                left -= done or _STEP_BYTES
                if left <= 0 or _has_to_wait(work) or monotonic() > until:
                    return False
        except Exception:  # one client's trouble is not the broker's
            log.exception("background work failed; its remaining steps are skipped")
        work.done.resolve(None)
        return True


def until_done(step: Callable[[], int], ended: Callable[[], None]) -> Iterator[int]:
    """Long work of steps that say how much they did: until one did nothing, or failed; `ended` is called then."""
    try:
        while done := step():
            yield done
    finally:
        ended()


def _has_to_wait(work: Work) -> bool:
    return work.waits is not None and work.waits()
