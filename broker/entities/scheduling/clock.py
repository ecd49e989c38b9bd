"""What time it is."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the broker gets the time; passed in, so that a test can own it."""

    def now(self) -> int:
        """Milliseconds since the epoch. Never goes back while the process lives."""


class SteadyClock:
    """Wall-clock time as it was at the start, moved on by the monotonic clock.

    Somebody who sets the machine's clock while the broker runs expires nothing early and keeps nothing for
    longer; the new time counts from the next start.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> int:
        return int((time.monotonic() + self._offset) * 1000)
