"""Histograms of the broker's own: what it measures of commits, turns and its event loop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from broker.entities.statistics.measurements import Histogram, Measurements


class Shown(NamedTuple):
    """A histogram's name behind `leveret_`, and its help."""

    name: str
    help: str


HISTOGRAMS = {
    "commit_messages": Shown("commit_messages", "Messages written by one commit"),
    "commit_bytes": Shown("commit_bytes", "Bytes written to the store's file by one commit"),
    "commit_seconds": Shown("commit_seconds", "Time of one commit, its sync included"),
    "sync_seconds": Shown("sync_seconds", "Time in which one commit was written and synced"),
    "confirm_seconds": Shown("confirm_wait_seconds", "The longest that a confirm waited for each batch"),
    "turn_seconds": Shown("turn_seconds", "Processor time of one turn with a client's bytes"),
    "lag_seconds": Shown("event_loop_lag_seconds", "How late the event loop woke a task that slept for a second"),
}
"""By their names in Measurements."""


def own_families(measurements: Measurements) -> Iterator[Metric]:
    """The histograms as they are now."""
    for name, shown in HISTOGRAMS.items():
        yield _family(shown, getattr(measurements, name))


def _family(shown: Shown, histogram: Histogram) -> Metric:
    bounds = (*(str(float(bound)) for bound in histogram.bounds), "+Inf")
    buckets = list(zip(bounds, accumulate(histogram.counts), strict=True))
    return HistogramMetricFamily(f"leveret_{shown.name}", shown.help, buckets=buckets, sum_value=histogram.total)
