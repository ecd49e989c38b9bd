"""The history together with the samples that a request asks for."""

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
    """The history, and the windows of samples that a request asks for."""

    history: StatisticsHistory
    ages: Ages

    def statistic(self, kind: SeriesKind, counters: Callable[[T], Any], path: str) -> Callable[[T], float] | None:
        """Return a function for one counter or rate, such as `message_stats.publish_details.rate`.

        Long lists are sorted by it without computing other statistics. None if the path does not lead to a counter.
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
    """Return a function for the rate of a column of things of one kind; 0 where no rates are kept."""
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
