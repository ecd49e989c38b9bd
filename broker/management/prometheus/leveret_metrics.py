"""Leveret's own metrics: histograms of commits, turns and the event loop, and whether the disk answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from broker.entities.statistics.measurements import Histogram, Measurements
from broker.management.prometheus.metric_groups import GAUGE, family


class HistogramMetric(NamedTuple):
    """The name of a histogram after `leveret_`, and its help."""

    name: str
    help: str


HISTOGRAMS = {
    "commit_messages": HistogramMetric("commit_messages", "Messages written by one commit"),
    "commit_bytes": HistogramMetric("commit_bytes", "Bytes written to the store's file by one commit"),
    "commit_seconds": HistogramMetric("commit_seconds", "Time of one commit, its sync included"),
    "sync_seconds": HistogramMetric("sync_seconds", "Time in which one commit was written and synced"),
    "confirm_seconds": HistogramMetric("confirm_wait_seconds", "The longest that a confirm waited for each batch"),
    "turn_seconds": HistogramMetric("turn_seconds", "Processor time of one turn with a client's bytes"),
    "lag_seconds": HistogramMetric(
        "event_loop_lag_seconds", "How late the event loop woke a task that slept for a second"
    ),
}
"""The histograms by their names in Measurements."""


def leveret_families(measurements: Measurements) -> Iterator[Metric]:
    """The histograms with their current values."""
    for name, metric in HISTOGRAMS.items():
        yield _family(metric, getattr(measurements, name))


def disk_families(disk: Mapping[str, Any]) -> Iterator[Metric]:
    """The gauges of a disk that hangs, from the status of the disk."""
    help_ = "1 while a write has been under way for disk.hang_seconds"
    yield family("leveret_disk_hangs", GAUGE, help_, [((), int(bool(disk["hangs"])))])
    waits = [((file,), seconds) for file, seconds in disk["pending_seconds"].items()]
    yield family("leveret_sync_pending_seconds", GAUGE, "Time of the write that is under way", waits, ("file",))


def _family(metric: HistogramMetric, histogram: Histogram) -> Metric:
    buckets = cumulative(histogram, lambda bound: str(float(bound)))
    return HistogramMetricFamily(f"leveret_{metric.name}", metric.help, buckets=buckets, sum_value=histogram.total)


def cumulative(histogram: Histogram, written: Callable[[float], str]) -> list[tuple[str, float]]:
    """Return the bounds as they are written, each with the number of values up to it."""
    bounds = (*map(written, histogram.bounds), "+Inf")
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
