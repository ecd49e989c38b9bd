"""Measurements of commits, of the wait for them, and of the event loop, since the broker was started."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from broker.entities.node.broker import Broker
from broker.entities.statistics.measurements import Histogram
from broker.management.statistics.commit_samples import intervals
from broker.management.statistics.sample_series import SLOT_SECONDS
from broker.management.statistics.sampler import Sampler
from broker.management.statistics.windows import SampleWindow

HISTOGRAMS = (
    "commit_messages",
    "commit_bytes",
    "commit_seconds",
    "sync_seconds",
    "confirm_seconds",
    "turn_seconds",
    "lag_seconds",
)
"""The histograms of `Measurements`, by the same names."""


def commits(broker: Broker) -> dict[str, Any]:
    """The histograms, up to a second old, and the bytes and batches that wait to be written."""
    measurements = broker.statistics.measurements
    return {
        "histograms": {name: _shown(getattr(measurements, name)) for name in HISTOGRAMS},
        "waiting_bytes": broker.batches.unstored_bytes,
        "waiting_batches": len(broker.batches.sealed),
    }


def commit_history(sampler: Sampler, window: SampleWindow) -> list[dict[str, Any]]:
    """The intervals of a window, the last one first: commits per second, messages in each, quantiles of times."""
    return intervals(sampler.commits.history, window, sampler.slot * SLOT_SECONDS)


def _shown(histogram: Histogram) -> dict[str, Any]:
    """A histogram in JSON. Buckets are pairs of an upper bound, None for the last, and the count of values up to it."""
    below = list(accumulate(histogram.counts))
    bounds = [*histogram.bounds, None]
    return {"count": below[-1], "sum": histogram.total, "buckets": list(zip(bounds, below, strict=True))}
