"""Time for which threads have waited for a processor, as Linux counts it."""

from __future__ import annotations

from pathlib import Path
from threading import get_native_id
from typing import final

STATISTICS = Path("/proc/thread-self/schedstat")
"""Nanoseconds that the thread has run, and nanoseconds that it has waited for a processor; then a count."""


@final
class ProcessorWaits:
    """Waits of each thread that asks."""

    def __init__(self, statistics: Path = STATISTICS) -> None:
        self._statistics = statistics
        self._known: dict[int, int] = {}

    def since_last(self) -> float:
        """Return the seconds that this thread has waited since it asked last; 0.0 at first, and without Linux."""
        try:
            total = int(self._statistics.read_bytes().split()[1])
        except (OSError, IndexError, ValueError):
            return 0.0
        thread = get_native_id()
        before = self._known.get(thread, total)
        self._known[thread] = total
        return (total - before) / 1e9
