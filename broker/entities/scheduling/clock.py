"""The broker's clock, in milliseconds since the epoch."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """The source of time; passed in, so that a test can control it."""

    stopped: bool
    """Time stands still until it is moved."""

    def now(self) -> int:
        """Return milliseconds since the epoch. Never goes back while the process lives, unless a test sets it back."""

    def soon(self) -> int:
        """Return when background work goes on: a millisecond from now, or now while time stands still."""

    def seconds_until(self, due: int) -> float:
        """Return the seconds from now until a time, at least 0."""


class SteadyClock:
    """Wall-clock time of the start, advanced by the monotonic clock.

    Setting the machine's clock while the broker runs expires nothing early and keeps nothing longer; the new time
    counts from the next start. If the machine's clock is before 1970, time begins in 1970: stored times are not
    negative, and 0 means no time.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        """`wall` and `steady` return seconds, `wall` since the epoch."""
        self.stopped = False
        self._steady = steady
        self._offset = max(wall(), 1.0) - steady()

    def now(self) -> int:
        """See `Clock`."""
        return int((self._steady() + self._offset) * 1000)

    def soon(self) -> int:
        """See `Clock`."""
        return self.now() + 1

    def seconds_until(self, due: int) -> float:
        """See `Clock`."""
        return max(0.0, (due - self.now()) / 1000)
