"""Virtual time: a monotonic clock, a wall clock that may be set, and what is to be done when."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

START_SECONDS = 1_700_000_000.0


class Times:
    """Two clocks, in milliseconds inside. To the broker it is the module `time`, as far as it asks that."""

    def __init__(self) -> None:
        self.now = 0
        self.wall_ahead = 0

    def time(self) -> float:
        """The wall clock, in seconds since the epoch."""
        return START_SECONDS + (self.now + self.wall_ahead) / 1000

    def monotonic(self) -> float:
        """The monotonic clock, in seconds."""
        return self.now / 1000

    def set_wall(self, by_milliseconds: int) -> None:
        """Somebody sets the machine's clock."""
        self.wall_ahead += by_milliseconds


class Agenda:
    """Things to do, by time. Of two things due together the one that was put down first comes first."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, milliseconds: int, action: Callable[[], None]) -> None:
        """Put something down."""
        heapq.heappush(self._due, (self.times.now + max(0, milliseconds), next(self._order), action))

    @property
    def next_due(self) -> int:
        """Time of the next thing."""
        return self._due[0][0] if self._due else 1 << 62

    def go_on(self) -> None:
        """Let time pass until something is due, and do it."""
        due, _, action = heapq.heappop(self._due)
        self.times.now = max(self.times.now, due)
        action()
