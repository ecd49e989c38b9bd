"""Time for which threads have waited for a processor, as Linux counts it."""

from __future__ import annotations

from pathlib import Path
from threading import local
from typing import final

STATISTICS = Path("/proc/thread-self/schedstat")
"""Nanoseconds that the thread has run, and nanoseconds that it has waited for a processor; then a count."""

SLOW_SECONDS = 0.001
"""A write that takes longer may have waited for a processor: the kernel is asked."""


@final
class ProcessorWaits:
    """Waits of each thread that asks."""

    def __init__(self, statistics: Path = STATISTICS) -> None:
        self._statistics = statistics
        self._known = local()

    def seconds_of_disk(self, seconds: float) -> float:
        """Return the seconds of a write by this thread without those for which it waited for a processor.

        On a busy machine each write takes some milliseconds more than the disk. The waits are those since the last slow
        write; others among them make a slow disk look quick for one write.
        """
        return seconds if seconds < SLOW_SECONDS else max(0.0, seconds - self.since_last())

    def since_last(self) -> float:
        """Return the seconds that this thread has waited since it asked last; 0.0 at first, and without Linux."""
        try:
            total = int(self._statistics.read_bytes().split()[1])
        except (OSError, IndexError, ValueError):
            return 0.0
        before: int = getattr(self._known, "total", total)
        self._known.total = total
        return (total - before) / 1e9
