"""The clock of a broker that takes orders of tests."""

from __future__ import annotations

from math import inf

from broker.entities.scheduling.clock import SteadyClock


class ControlledClock:
    """Goes on by itself until it is stopped, and from any time that it is set to. Times are milliseconds.

    While it is stopped nothing is waited for: the only way to a later time is `move`.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._steady = SteadyClock()
        self._ahead = 0
        self._stopped_at = 0

    def now(self) -> int:
        return self._stopped_at if self.stopped else self._steady.now() + self._ahead

    def soon(self) -> int:
        return self._stopped_at if self.stopped else self.now() + 1

    def seconds_until(self, due: int) -> float:
        if self.stopped and due > self._stopped_at:
            return inf
        return max(0.0, (due - self.now()) / 1000)

    @property
    def ahead(self) -> int:
        """How far it is from the machine's clock."""
        return self.now() - self._steady.now()

    def stop(self) -> None:
        """Stand still, a millisecond from now: what was to go on soon (`Clock.soon`) is due then."""
        self._stopped_at = self.now() + (not self.stopped)
        self.stopped = True

    def move(self, now: int) -> None:
        """Show another time; only while it is stopped."""
        assert self.stopped, "a clock that goes on is moved"
        self._stopped_at = now

    def go_on(self) -> None:
        """Go on from the time that it shows."""
        if self.stopped:
            self._ahead = self._stopped_at - self._steady.now()
            self.stopped = False

    def reset(self) -> None:
        """Show the machine's time again."""
        self._ahead, self.stopped = 0, False
