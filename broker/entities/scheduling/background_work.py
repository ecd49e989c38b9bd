"""Background work: long work done one portion at a time, with other clients' turns in between.

The first portion is done at once, and nearly always that is all. The rest is queued, and each millisecond one portion
of one work is done: a hundred clients with long work cost the others no more than one such client does. Work that
writes waits while the disk is behind, so its writes take no more memory than publishers' writes may.
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
"""Size of one portion, which is done in one turn. It is the only bound on work that takes several turns."""

MESSAGE_BYTES = PORTION_BYTES // 1024
"""Cost of a message beside its body: a portion is 1,024 small messages."""

STEP_COPIES = 128
"""Copies of dead letters made in one step. All copies of one message are made together, whatever their number."""

PORTION_STEPS = 256
"""Steps of unknown cost, about 10 microseconds each, in one portion."""

_STEP_BYTES = PORTION_BYTES // PORTION_STEPS

Steps = Iterator[int | None]
"""Long work as an iterator: `next` does one step and returns its cost in bytes, MESSAGE_BYTES for each message
included, or None for a step without messages."""


class Work(NamedTuple):
    """The steps that are left, the future that is settled after the last one, and whether to wait for the disk now."""

    steps: Steps
    done: Future[None]
    waits: Callable[[], bool] | None


class BackgroundWork:
    """The unfinished works of a broker. A portion takes at most `seconds_max`, but at least one step.

    `soon` gives the time of the next portion: see `Clock.soon`.
    """

    def __init__(self, timers: Timers, soon: Callable[[], int], seconds_max: float = inf) -> None:
        self._timers = timers
        self._soon = soon
        self._seconds_max = seconds_max
        self.works: deque[Work] = deque()
        """The unfinished works; the first one goes on next."""
        self._due = False

    @property
    def unfinished(self) -> list[Future[None]]:
        """One future for each unfinished work, settled when it is done."""
        return [work.done for work in self.works]

    @property
    def waits(self) -> bool:
        """There is unfinished work, and all of it waits for the disk."""
        return bool(self.works) and all(map(_has_to_wait, self.works))

    def begin(self, steps: Steps, waits: Callable[[], bool] | None = None, *, later: bool = False) -> Future[None]:
        """Do the first portion now, or in a `later` turn; return a future that is settled once all is done.

        No step is done while `waits` returns True, when the work waits for the disk: see `disk_moved`.
        """
        work = Work(steps, Future(), waits)
        if later or _has_to_wait(work) or not self._advance(work):
            self.works.append(work)
            self._next_later()
        return work.done

    def disk_moved(self) -> None:
        """Go on with works that waited for the disk: a batch has been stored."""
        self._next_later()

    def finish(self) -> None:
        """Finish all works that never wait for the disk: there will be no further turns."""
        for work in [work for work in self.works if work.waits is None]:
            while not self._advance(work):
                pass
            self.works.remove(work)

    def _next_later(self) -> None:
        if not self._due:
            self._due = True
            self._timers.at(self._soon(), self._next)

    def _next(self) -> None:
        """Do a portion of the first work that need not wait. If all have to wait, `disk_moved` goes on."""
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
        """Do a portion; return True if it was the last one."""
        left, until = PORTION_BYTES, monotonic() + self._seconds_max
        try:
            for done in work.steps:
                left -= done or _STEP_BYTES
                if left <= 0 or _has_to_wait(work) or monotonic() > until:
                    return False
        except Exception:  # one client's work must not end the broker
            log.exception("background work failed; its remaining steps are skipped")
        work.done.resolve(None)
        return True


def until_done(step: Callable[[], int], ended: Callable[[], None]) -> Iterator[int]:
    """Repeat a step that returns its cost until it returns 0 or fails; then call `ended`."""
    try:
        while done := step():
            yield done
    finally:
        ended()


def _has_to_wait(work: Work) -> bool:
    return work.waits is not None and work.waits()
