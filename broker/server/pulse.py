"""A task that wakes once a second while something happens: how late the event loop is, and what was measured."""

from __future__ import annotations

from collections import deque

import trio

from broker.entities.statistics.measurements import Measurements
from broker.server.engine import Activity
from storage.messages.store_io import CommitFigures

BEAT_SECONDS = 1.0


class Pulse:
    """Puts what the store's thread and the committer have noted into the histograms.

    `commits` are the store's latest, `waits` the seconds that confirms have waited. Both are taken from their left
    ends, by whichever comes first: the task, or a reader of the histograms who wants them as they are now.
    """

    def __init__(
        self, measurements: Measurements, commits: deque[CommitFigures], waits: deque[float], activity: Activity
    ) -> None:
        self._activity = activity
        self._measurements = measurements
        self._commits = commits
        self._waits = waits

    def gather(self) -> None:
        """Have everything that was noted so far in the histograms."""
        measurements = self._measurements
        while self._commits:
            figures = self._commits.popleft()
            measurements.commit_messages.observe(figures.messages)
            measurements.commit_seconds.observe(figures.seconds)
            measurements.sync_seconds.observe(figures.sync_seconds)
            if figures.size is not None:
                measurements.commit_bytes.observe(figures.size)
        while self._waits:
            measurements.confirm_seconds.observe(self._waits.popleft())

    async def run(self) -> None:
        """Beat for ever."""
        while True:
            due = trio.current_time() + BEAT_SECONDS
            await trio.sleep_until(due)
            self._measurements.lag_seconds.observe(max(0.0, trio.current_time() - due))
            self.gather()
            await self._activity.anything()
