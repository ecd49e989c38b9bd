"""Receipts: each published number must come once to each account that expects it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field


@dataclass
class Account:
    """Messages that must come to one place, by number. It remembers outstanding messages alone."""

    name: str
    ordered: bool = False
    """They come in the order of their numbers, apart from redelivered ones."""
    outstanding: set[int] = field(default_factory=set)
    expected: int = 0
    doubled: int = 0
    disordered: int = 0
    _last: int = -1

    def expect(self, number: int) -> None:
        """It is about to be published."""
        self.outstanding.add(number)
        self.expected += 1

    def settle(self, number: int) -> None:
        """It has come, and is acknowledged: it must not come again."""
        if number in self.outstanding:
            self.outstanding.remove(number)
        else:
            self.doubled += 1

    def see(self, number: int, redelivered: bool) -> None:
        """It has come."""
        if self.ordered and not redelivered:
            self.disordered += number < self._last
            self._last = number


@dataclass
class Latencies:
    """Times from sending a publish to its confirm, since they were last asked for."""

    _times: list[float] = field(default_factory=list)

    def add(self, seconds: float) -> None:
        """A confirm took this long."""
        self._times.append(seconds)

    def take(self) -> tuple[float, float]:
        """Median and 99th percentile in ms; it begins again. Zeros when nothing was confirmed."""
        times, self._times = sorted(self._times), []
        if not times:
            return 0.0, 0.0
        p50, p99 = (times[min(len(times) - 1, int(len(times) * part))] * 1000 for part in (0.5, 0.99))
        return round(p50, 2), round(p99, 2)


class Unconfirmed:
    """Publishes of one channel that wait for their confirms."""

    def __init__(self, latencies: Latencies) -> None:
        self.published = 0
        self._latencies = latencies
        self._sent_at: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._sent_at)

    def add(self, now: float) -> None:
        """One more is sent."""
        self.published += 1
        self._sent_at[self.published] = now

    def confirm(self, tag: int, multiple: bool, now: float) -> None:
        """A confirm has come. Raises KeyError for one that nobody waits for."""
        tags = [tag]
        if multiple:  # tags are in their order
            tags = list(itertools.takewhile(tag.__ge__, self._sent_at))
        for one in tags:
            self._latencies.add(now - self._sent_at.pop(one))
