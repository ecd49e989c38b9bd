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


class QuickDisk:
    """Counts the writes of one kind, by whichever thread. `least`: see QUICK_WRITES_MIN."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._writes = 0

    @property
    def quick(self) -> bool:
        """True if the event loop may wait for the next write."""
        return self._writes >= self._least

    def wrote(self, seconds: float) -> None:
        """Note a write, and the time that it took the disk."""
        change = 1 if seconds < QUICK_SECONDS else -SLOW_WEIGHT
        self._writes = min(max(self._writes + change, 0), self._least + WRITES_ABOVE)
