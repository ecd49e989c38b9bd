"""What one turn of the broker leaves to its end.

A turn is everything that happens between two waits: some bytes of one client are taken apart and handled, or
a batch has reached the disk. Queues that were touched deliver once, at the end of it, and every connection
that has something to say says it in one piece.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Protocol

from broker.entities.scheduling.invariants import Checked, Invariants

log = logging.getLogger("leveret.queue")


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

    Queues deliver for `seconds_max` at the end of one turn; what is left is the next turn's. `invariants` are there if
    they are checked.
    """

    def __init__(self, seconds_max: float = inf, invariants: Invariants | None = None) -> None:
        self._seconds_max = seconds_max
        self._invariants = invariants
        self.queues: list[Deliverer] = []
        self.outbound: list[Outbound] = []
        self._last: list[Callable[[], None]] = []
        self.dead_letter_depth = 0
        """Of how many dead letters, each the reason of the next, the last one is being published now."""
        self.dead_letter_copies = 0
        """How many copies of dead letters this turn has put into queues."""

    def last(self, action: Callable[[], None]) -> None:
        """Do something when everything else of this turn is done: what must be said after the turn's answers."""
        self._last.append(action)

    @property
    def pending(self) -> bool:
        """Something has been touched, or is left for the end."""
        return bool(self.queues or self.outbound or self._last)

    def end(self) -> None:
        """Deliver and flush. A flush that makes room touches queues again: those are the next turn's."""
        until = monotonic() + self._seconds_max
        while self.queues and monotonic() < until:
            queues, self.queues = self.queues, []
            if self._invariants is not None:
                self._invariants.touch_all(queues)
            for place, queue in enumerate(queues, 1):
                self._deliver(queue)
                if place % 16 == 0 and monotonic() > until:
                    self.queues += queues[place:]
                    break
        last, self._last = self._last, []
        for action in last:
            action()
        outbound, self.outbound = self.outbound, []
        for connection in outbound:
            connection.flush()
        self.dead_letter_copies = 0
        if self._invariants is not None:
            self._invariants.check()

    def _deliver(self, queue: Deliverer) -> None:
        try:
            queue.deliver()
        except Exception:  # one queue's trouble is not the broker's
            log.exception("queue '%s' could not deliver", queue.name, extra={"queue": queue.name})
