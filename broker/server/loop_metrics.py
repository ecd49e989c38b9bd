"""A task that wakes once a second while something happens: how late the event loop is, and what was measured."""

from __future__ import annotations

from collections import deque

import trio

from broker.entities.statistics.measurements import Measurements
from broker.server.engine import Activity
from storage.messages.store_io import CommitFigures

BEAT_SECONDS = 1.0


class LoopMetrics:
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
        commits = [self._commits.popleft() for _ in range(len(self._commits))]
        measurements.commit_messages.observe_all([commit.messages for commit in commits])
        measurements.commit_seconds.observe_all([commit.seconds for commit in commits])
        measurements.sync_seconds.observe_all([commit.sync_seconds for commit in commits])
        measurements.commit_bytes.observe_all([commit.size for commit in commits if commit.size is not None])
        measurements.confirm_seconds.observe_all([self._waits.popleft() for _ in range(len(self._waits))])

    async def run(self) -> None:
        """Beat for ever."""
        while True:
            due = trio.current_time() + BEAT_SECONDS
            await trio.sleep_until(due)
            self._measurements.lag_seconds.observe(max(0.0, trio.current_time() - due))
            self.gather()
            await self._activity.anything()
