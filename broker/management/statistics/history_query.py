"""What rows show of the past: where it is kept, and which samples of it are asked for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from broker.admin.views.columns import ABSENT
from broker.management.statistics.history import StatisticsHistory
from broker.management.statistics.message_stats import columns_of
from broker.management.statistics.sample_series import SLOT_SECONDS, Series, SeriesKind
from broker.management.statistics.sampler import Remembered, Sampler
from broker.management.statistics.windows import Ages

T = TypeVar("T")


class HistoryQuery(NamedTuple):
    """The history, and the windows that a request has asked for."""

    history: StatisticsHistory
    ages: Ages

    def statistic(self, kind: SeriesKind, counters: Callable[[T], Any], path: str) -> Callable[[T], float] | None:
        """What gives one counter or rate, such as `message_stats.publish_details.rate`, of things of a kind.

        Lists of very many are sorted by it without their other statistics. None: the path leads elsewhere.
        """
        shown = path.removeprefix("message_stats.")
        name = shown.removesuffix("_details.rate")
        if any(column not in kind.columns for column in columns_of(name)):
            return None
        if name != shown:
            rate = _latest_rate(self.history.sampler, kind, name)
            return lambda thing: rate(counters(thing))
        if shown == path:
            return None
        counts = [attrgetter(column) for column in columns_of(name)]
        return lambda thing: sum(count(counters(thing)) for count in counts)


def _latest_rate(sampler: Sampler, kind: SeriesKind, name: str) -> Callable[[Remembered], float]:
    """What gives the rate of a column for many things of one kind. Without rates nothing is remembered: it is 0."""
    places = [kind.columns.index(column) for column in columns_of(name)]
    slot, seconds = sampler.slot, sampler.elapsed * SLOT_SECONDS

    def rate(of: Remembered) -> float:
        series: Series | None = of.history
        if series is None or series.changed < slot:
            return 0.0
        return float(sum(map(series.change, places)) / seconds)

    return rate


def moment(milliseconds: int | None) -> Any:
    """A time as RabbitMQ writes it: `2026-11-23T08:48:05.870+00:00`. ABSENT for None."""
    if milliseconds is None:
        return ABSENT
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
