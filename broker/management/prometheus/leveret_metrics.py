"""Leveret's own metrics: histograms of commits, turns and the event loop; shipping; a standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from broker.admin.administration import StandbyControl
from broker.entities.statistics.measurements import Histogram, Measurements
from broker.management.prometheus.metric_groups import COUNTER, GAUGE, family


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


SHIP = (
    ("lag_seconds", GAUGE, "lag_seconds", "For how long changes on disk have not been at the second place"),
    ("lag_messages", GAUGE, "lag_messages", "Messages that are on disk and not at the second place"),
    ("lag_bytes", GAUGE, "lag_bytes", "Bytes of records that are on disk and not at the second place"),
    ("confirm_wait_seconds", GAUGE, "confirm_wait_seconds", "For how long a confirm has waited for the second place"),
    ("failing", GAUGE, "problem", "1 while nothing can be written to the second place"),
    ("bases_total", COUNTER, "bases", "Copies of the whole store that were shipped"),
    ("pieces_total", COUNTER, "pieces", "Pieces that were sealed for the second place"),
    ("bytes_total", COUNTER, "bytes", "Bytes written to the second place"),
)
"""Metrics of shipping: the name after `leveret_ship_`, its kind, the field of the state, and its help."""


def ship_families(status: Mapping[str, Any]) -> Iterator[Metric]:
    """The metrics of shipping; none if it is off."""
    state = status.get("ship")
    if state is not None:
        for name, kind, field, help_ in SHIP:
            value = state[field]
            yield family(f"leveret_ship_{name}", kind, help_, [((), bool(value) if field == "problem" else value)])


STANDBY = (
    ("lag_seconds", "lag_seconds", "For how long changes at the place have not been applied by this standby"),
    ("failing", "problem", "1 while this standby cannot follow its place"),
)
"""Metrics of a standby: the name after `leveret_standby_`, the field of the state, and its help."""


def standby_families(standby: StandbyControl | None) -> Iterator[Metric]:
    """The metrics of a standby; none of a broker."""
    if standby is not None:
        state = standby.state()
        for name, field, help_ in STANDBY:
            value = state[field]
            yield family(f"leveret_standby_{name}", GAUGE, help_, [((), bool(value) if field == "problem" else value)])


def _family(metric: HistogramMetric, histogram: Histogram) -> Metric:
    buckets = cumulative(histogram, lambda bound: str(float(bound)))
    return HistogramMetricFamily(f"leveret_{metric.name}", metric.help, buckets=buckets, sum_value=histogram.total)


def cumulative(histogram: Histogram, written: Callable[[float], str]) -> list[tuple[str, float]]:
    """Return the bounds as they are written, each with the number of values up to it."""
    bounds = (*map(written, histogram.bounds), "+Inf")
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
