"""How long things take and how large they are: histograms with fixed bounds, bumped per commit or turn, never per
message."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
BYTES = tuple(1 << power for power in range(12, 28, 1))
"""4 KiB to 128 MiB."""
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Histogram:
    """How many values were no larger than each bound, and the sum of all.

    `counts` has one more than `bounds`: each counts the values above the bound before, the last those above all.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """One more value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: list[float]) -> None:
        """Many more values, which are sorted here: that costs less than to find the place of each."""
        values.sort()
        counted = 0
        for place, bound in enumerate(self.bounds):
            no_larger = bisect_right(values, bound)
            self.counts[place] += no_larger - counted
            counted = no_larger
        self.counts[-1] += len(values) - counted
        self.total += sum(values)


class Measurements:
    """What the server measures of itself, since the start.

    - `commit_messages`: messages written by one commit, of all queues; bodies shared by several count for each.
    - `commit_bytes`: bytes that one commit wrote to the store's file. Empty where the system does not say.
    - `commit_seconds`: how long one commit took in the store's thread, its sync included.
    - `sync_seconds`: how long LMDB's own commit took in it: pages written, and synced.
    - `confirm_seconds`: how long confirms waited for one batch: from the end of the turn in which the first publish
      came that waits for it until it was on disk and its confirms were due. The longest wait of a batch, so to say.
    - `turn_seconds`: processor time of one turn in which a client's bytes were handled, deliveries and output included.
    - `lag_seconds`: how late the event loop woke a task that slept for a second.
    """

    def __init__(self) -> None:
        self.commit_messages = Histogram(COUNTS)
        self.commit_bytes = Histogram(BYTES)
        self.commit_seconds = Histogram(SECONDS)
        self.sync_seconds = Histogram(SECONDS)
        self.confirm_seconds = Histogram(SECONDS)
        self.turn_seconds = Histogram(SECONDS)
        self.lag_seconds = Histogram(SECONDS)
