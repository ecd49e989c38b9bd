"""What one turn of the broker leaves to its end.

A turn is everything that happens between two waits: some bytes of one client are taken apart and handled, or
a batch has reached the disk. Queues that were touched deliver once, at the end of it, and every connection
that has something to say says it in one piece.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Protocol

from broker.entities.scheduling.invariants import Checked, Invariants

log = logging.getLogger("leveret.queue")


LEFT_PART = 5
"""How many times as long the queues of a turn may deliver as those that are left over."""


class Deliverer(Checked, Protocol):
    """A queue with something to deliver."""

    name: str

    def deliver(self) -> None:
        """Hand out what is ready to consumers with credit."""


class Outbound(Protocol):
    """A connection with bytes to send."""

    def flush(self) -> None:
        """Hand over what is waiting to be sent."""


class Turn:
    """The queues and connections touched since the last turn ended.

    Queues that a turn has touched deliver for `seconds_max` at its end. For what is left over then, and for queues that
    are touched by these deliveries - dead letters fall from queue to queue - there is a part of that time, here and in
    turns to come: a client with little to do does not wait for long chains of others. `invariants` are there if they
    are checked.
    """

    def __init__(self, seconds_max: float = inf, invariants: Invariants | None = None) -> None:
        self._seconds_max = seconds_max
        self._invariants = invariants
        self.queues: list[Deliverer] = []
        self._left: deque[Deliverer] = deque()
        self.outbound: list[Outbound] = []
        self._last: list[Callable[[], None]] = []
        self.dead_letter_depth = 0
        """Of how many dead letters, each the reason of the next, the last one is being published now."""
        self.dead_letter_copies = 0
        """How many copies of dead letters this turn has put into queues; writing a long one counts as several."""

    def last(self, action: Callable[[], None]) -> None:
        """Do something when everything else of this turn is done: what must be said after the turn's answers."""
        self._last.append(action)

    @property
    def pending(self) -> bool:
        """Something has been touched, or is left for the end."""
        return bool(self.queues or self._left or self.outbound or self._last)

    def end(self) -> None:
        """Deliver and flush. A flush that makes room touches queues again: those are the next turn's."""
        began = monotonic()
        if self.queues:
            self._deliver_touched(began + self._seconds_max)
        if self._left or self.queues:
            self._deliver_left(began + self._seconds_max / LEFT_PART)
        last, self._last = self._last, []
        for action in last:
            action()
        outbound, self.outbound = self.outbound, []
        for connection in outbound:
            connection.flush()
        self.dead_letter_copies = 0
        if self._invariants is not None:
            self._invariants.check()

    def _deliver_touched(self, until: float) -> None:
        """Serve the queues that this turn has touched. What is not served then, or is touched by it, is left over."""
        queues, self.queues = self.queues, []
        for place, queue in enumerate(queues, 1):
            self._deliver(queue)
            if monotonic() > until:
                self._left += queues[place:]
                break

    def _deliver_left(self, until: float) -> None:
        """Serve what is left over, first come first served, and what is touched by it."""
        left = self._left
        left += self.queues
        self.queues.clear()
        while left and monotonic() < until:
            self._deliver(left.popleft())
            left += self.queues
            self.queues.clear()

    def _deliver(self, queue: Deliverer) -> None:
        if self._invariants is not None:
            self._invariants.touch(queue)
        try:
            queue.deliver()
        except Exception:  # one queue's trouble is not the broker's
            log.exception("queue '%s' could not deliver", queue.name, extra={"queue": queue.name})
