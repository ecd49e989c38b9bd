"""The clock of a broker that accepts test requests."""

from __future__ import annotations

from math import inf

from broker.entities.scheduling.clock import SteadyClock


class ControlledClock:
    """A clock that can be stopped and set. Times are milliseconds.

    While it is stopped only `move` brings it to a later time.
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
        """Milliseconds by which it is ahead of the machine's clock."""
        return self.now() - self._steady.now()

    def stop(self) -> None:
        """Stop, a millisecond from now: work for `Clock.soon` is due then."""
        self._stopped_at = self.now() + (not self.stopped)
        self.stopped = True

    def move(self, now: int) -> None:
        """Set the time of a stopped clock."""
        assert self.stopped, "a clock that goes on is moved"
        self._stopped_at = now

    def go_on(self) -> None:
        """Run on from the time that it shows."""
        if self.stopped:
            self._ahead = self._stopped_at - self._steady.now()
            self.stopped = False

    def reset(self) -> None:
        """Show the machine's time."""
        self._ahead, self.stopped = 0, False
