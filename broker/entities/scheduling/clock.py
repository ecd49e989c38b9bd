"""What time it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Where the broker gets the time; passed in, so that a test can own it."""

    stopped: bool
    """Time stands still until it is moved."""

    def now(self) -> int:
        """Milliseconds since the epoch. Never goes back while the process lives, but where a test sets it back."""

    def soon(self) -> int:
        """When work goes on that gives way to others: a millisecond from now, or now where time stands still."""

    def seconds_until(self, due: int) -> float:
        """How long to wait for a time."""


class SteadyClock:
    """Wall-clock time as it was at the start, moved on by the monotonic clock.

    Setting the machine's clock while the broker runs expires nothing early and keeps nothing for
    longer; the new time counts from the next start. Where the machine's clock says that it is before 1970, time
    begins in 1970: times are written down as numbers from 0 up, and 0 is none.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        """Both in seconds, the first since the epoch."""
        self.stopped = False
        self._steady = steady
        self._offset = max(wall(), 1.0) - steady()

    def now(self) -> int:
        """See `Clock`."""
        return int((self._steady() + self._offset) * 1000)

    def soon(self) -> int:
        """A millisecond from now."""
        return self.now() + 1

    def seconds_until(self, due: int) -> float:
        """See `Clock`."""
        return max(0.0, (due - self.now()) / 1000)
