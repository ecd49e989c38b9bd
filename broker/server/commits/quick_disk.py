"""Tells whether the disk has been so quick that the event loop may wait for a write itself."""

from __future__ import annotations

QUICK_SECONDS = 0.001
"""A write that takes the disk less is quick."""
QUICK_WRITES_MIN = 20
"""Quick writes more than slow ones, by their weight, from which the disk is quick."""
SLOW_WEIGHT = 4
"""Quick writes that make up for a slow one: where more than a fifth are slow, the disk is slow."""
WRITES_ABOVE = 2 * SLOW_WEIGHT
"""No more are counted above the least, so that the third slow write in a row is the last of the event loop."""


FRESH_SECONDS = 1.0
"""A disk that was quick longer ago than this may hang by now: a thread finds out."""
HUNG_SECONDS = 0.1
"""After a write that took longer all count again from nothing."""


class QuickDisk:
    """Counts the writes of one kind, by whichever thread. `least`: see QUICK_WRITES_MIN. Times are of any one clock."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._writes = 0
        self._wrote_at = 0.0

    def quick(self, now: float) -> bool:
        """Return True if the event loop may wait for the next write."""
        return self._writes >= self._least and now - self._wrote_at <= FRESH_SECONDS

    def wrote(self, seconds: float, now: float) -> None:
        """Note a write that has ended now, and the time that it took the disk."""
        self._wrote_at = now
        change = 1 if seconds < QUICK_SECONDS else -SLOW_WEIGHT
        self._writes = 0 if seconds > HUNG_SECONDS else min(max(self._writes + change, 0), self._least + WRITES_ABOVE)
