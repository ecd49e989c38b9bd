"""The end of a turn: deliveries and output, once for the whole turn.

A turn is everything between two waits of the event loop: some bytes of one client are parsed and handled, or a batch
has been stored. Queues that were touched deliver once, at the end of the turn, and each connection with output sends it
in one piece.
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
"""The queues left over from earlier turns deliver for this fraction (1/5) of the time that a turn's own queues have."""


class Deliverer(Checked, Protocol):
    """A queue with something to deliver."""

    name: str

    def deliver(self) -> None:
        """Deliver ready messages to consumers with credit."""


class Outbound(Protocol):
    """A connection with bytes to send."""

    def flush(self) -> None:
        """Hand over the output that waits."""


class Turn:
    """The queues and connections touched since the last turn ended.

    Queues that a turn has touched deliver for `seconds_max` at its end. Queues left over then, and queues touched by
    these deliveries (dead letters pass from queue to queue), deliver for 1/LEFT_PART of that time, in this turn and in
    later ones, so that other clients do not wait for long chains of dead letters. `invariants` is None unless they are
    checked.
    """

    def __init__(self, seconds_max: float = inf, invariants: Invariants | None = None) -> None:
        self._seconds_max = seconds_max
        self._invariants = invariants
        self.queues: list[Deliverer] = []
        self._left: deque[Deliverer] = deque()
        self.outbound: list[Outbound] = []
        self._last: list[Callable[[], None]] = []
        self.dead_letter_depth = 0
        """Length of the chain of dead letters, each caused by the one before, that is being published now."""
        self.dead_letter_copies = 0
        """Copies of dead letters that this turn has put into queues; a long x-death header counts as several."""

    def last(self, action: Callable[[], None]) -> None:
        """Run an action after the turn's deliveries, such as sending what has to follow the turn's answers."""
        self._last.append(action)

    @property
    def pending(self) -> bool:
        """There is something to do at the end of this turn."""
        return bool(self.queues or self._left or self.outbound or self._last)

    def end(self) -> None:
        """Deliver and flush. A flush that empties a full output touches queues again; the next turn serves those."""
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
        """Let the queues that this turn has touched deliver until `until`; the others are left over."""
        queues, self.queues = self.queues, []
        for served, queue in enumerate(queues, 1):
            self._deliver(queue)
            if monotonic() > until:
                self._left += queues[served:]
                break

    def _deliver_left(self, until: float) -> None:
        """Let the queues left over deliver until `until`, in order of arrival, then those touched by that."""
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
        except Exception:  # one queue's error must not end the broker
            log.exception("queue '%s' could not deliver", queue.name, extra={"queue": queue.name})
