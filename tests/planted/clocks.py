"""Mistakes in what time it is."""

from __future__ import annotations

import time

from broker.entities.scheduling.clock import SteadyClock
from tests.planted.mistake import Mistake


def time_by_the_wall_clock() -> None:
    """Ask the wall clock what time it is, whoever sets it."""

    def now(clock: SteadyClock) -> int:
        return int(time.time() * 1000)

    SteadyClock.now = now  # type: ignore[method-assign]


MISTAKES = {"time by the wall clock": Mistake("I9", time_by_the_wall_clock)}
