"""Histograms of times and sizes with fixed bounds, updated per commit, turn or group of publishes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
BYTES = tuple(1 << power for power in range(12, 28, 1))
"""4 KiB to 128 MiB."""
MESSAGE_BYTES = (100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""The bounds of RabbitMQ's message sizes."""
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """A histogram: values counted by bound, and their sum.

    `counts[i]` counts values up to `bounds[i]` and above the bound before; one more count is for values above all.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: list[float]) -> None:
        """Count many values. Sorts the list, which costs less than finding the bound of each."""
        values.sort()
        counted = 0
        for place, bound in enumerate(self.bounds):
            no_larger = bisect_right(values, bound)
            self.counts[place] += no_larger - counted
            counted = no_larger
        self.counts[-1] += len(values) - counted
        self.total += sum(values)


class Measurements:
    """The server's measurements of itself since the start.

    - `commit_messages`: messages of one commit, of all queues; a shared body counts for each queue.
    - `commit_bytes`: bytes that one commit wrote to the store's file. Empty if the system does not report it.
    - `commit_seconds`: time of one commit in the commit thread, including its sync.
    - `sync_seconds`: time of LMDB's own commit in it: writing and syncing pages.
    - `confirm_seconds`: time that confirms waited for one batch: from the end of the turn with the first publish of the
      batch until the batch was on disk. This is the longest wait in the batch.
    - `turn_seconds`: CPU time of one turn in which a client's bytes were handled, including deliveries and output.
    - `lag_seconds`: delay with which the event loop woke a task that slept for a second.
    """

    def __init__(self) -> None:
        self.commit_messages = Histogram(COUNTS)
        self.commit_bytes = Histogram(BYTES)
        self.commit_seconds = Histogram(SECONDS)
        self.sync_seconds = Histogram(SECONDS)
        self.confirm_seconds = Histogram(SECONDS)
        self.turn_seconds = Histogram(SECONDS)
        self.lag_seconds = Histogram(SECONDS)
