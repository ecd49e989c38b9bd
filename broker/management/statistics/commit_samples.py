"""Samples of the histograms of commits, and the statistics of the time between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from broker.entities.statistics.measurements import SECONDS, Measurements
from broker.management.statistics.sample_series import LONG, SLOT_SECONDS, Row, Series, SeriesKind
from broker.management.statistics.windows import SampleWindow

TIMES = ("confirm_seconds", "sync_seconds")
"""Histograms of which the buckets are sampled, all with the bounds SECONDS."""
_BUCKETS = len(SECONDS) + 1
_OF_TIMES = tuple(f"{name}_{place}" for name in TIMES for place in range(_BUCKETS))

COMMITS = SeriesKind(("commits", "messages", *_OF_TIMES), LONG, "d")
"""Commits and their messages since the start, and the counts of each bucket. All rings take 80 KiB."""


def commit_row(measurements: Measurements) -> Row:
    """The values of a sample."""
    messages = measurements.commit_messages
    counts = [count for name in TIMES for count in getattr(measurements, name).counts]
    return (sum(messages.counts), messages.total, *counts)


def intervals(series: Series | None, window: SampleWindow, newest: int) -> list[dict[str, Any]]:
    """The intervals of a window up to `newest`, in seconds since the epoch, the last one first.

    `timestamp` is the end of an interval, in ms. Without commits `messages` and the quantiles are null.
    """
    if series is None:
        return []
    times = window.times(newest)
    values = series.at([time // SLOT_SECONDS for time in times], window.age)
    rows = list(zip(*(values(column) for column in range(len(COMMITS.columns))), strict=True))
    return [
        {"timestamp": time * 1000, **_interval(later, earlier, window.incr)}
        for time, (later, earlier) in zip(times, pairwise(rows), strict=False)
    ]


def _interval(later: Sequence[float], earlier: Sequence[float], seconds: int) -> dict[str, Any]:
    commits, messages, *counts = (after - before for after, before in zip(later, earlier, strict=True))
    quantiles = {
        name: _quantiles(counts[place * _BUCKETS : (place + 1) * _BUCKETS]) for place, name in enumerate(TIMES)
    }
    return {"rate": commits / seconds, "messages": messages / commits if commits else None, **quantiles}


def _quantiles(counts: Sequence[float]) -> dict[str, float | None]:
    return {"median": quantile(counts, 0.5), "p99": quantile(counts, 0.99)}


def quantile(counts: Sequence[float], share: float) -> float | None:
    """The quantile of times counted by bucket, interpolated within its bucket; None without any."""
    left, lower = sum(counts) * share, 0.0
    if left <= 0:
        return None
    for count, bound in zip(counts, SECONDS, strict=False):
        if count >= left:
            return lower + (bound - lower) * left / count
        left, lower = left - count, bound
    return lower
