"""Metrics of the event loop and of commits: a task that wakes once a second, unless the broker is idle."""

from __future__ import annotations

from collections import deque

import trio

from broker.entities.statistics.measurements import Measurements
from broker.server.engine import Activity
from storage.messages.store_io import CommitFigures

BEAT_SECONDS = 1.0


class LoopMetrics:
    """Observes the lag of the event loop, and moves the figures of commits into the histograms.

    `commits` are noted by the commit thread, `waits` (seconds until a commit) by the committer. Both are taken from
    their left ends, by the task or, before that, by a reader of the histograms.
    """

    def __init__(
        self, measurements: Measurements, commits: deque[CommitFigures], waits: deque[float], activity: Activity
    ) -> None:
        self._activity = activity
        self._measurements = measurements
        self._commits = commits
        self._waits = waits

    def gather(self) -> None:
        """Move all figures noted so far into the histograms."""
        measurements = self._measurements
        commits = [self._commits.popleft() for _ in range(len(self._commits))]
        measurements.commit_messages.observe_all([commit.messages for commit in commits])
        measurements.commit_seconds.observe_all([commit.seconds for commit in commits])
        measurements.sync_seconds.observe_all([commit.sync_seconds for commit in commits])
        measurements.commit_bytes.observe_all([commit.size for commit in commits if commit.size is not None])
        measurements.confirm_seconds.observe_all([self._waits.popleft() for _ in range(len(self._waits))])

    async def run(self) -> None:
        """Observe the lag and gather figures every BEAT_SECONDS, until cancelled."""
        while True:
            due = trio.current_time() + BEAT_SECONDS
            await trio.sleep_until(due)
            self._measurements.lag_seconds.observe(max(0.0, trio.current_time() - due))
            self.gather()
            await self._activity.anything()
