"""Waiting until the broker has done everything that is due, before a test request is answered."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import trio

from broker.entities.node.broker import Broker
from broker.server.commits.committer import Committer

STEP_SECONDS = 0.005
"""Time for which due work is done before other tasks run."""
PACE_SECONDS = 0.001
"""Pause for other tasks between two steps of background work, while the clock runs."""


class Quiescence:
    """Does all work that is due at this moment of the broker's clock; the engine does the same beside it."""

    def __init__(self, broker: Broker, committer: Committer, end_turn: Callable[[], None]) -> None:
        self._broker = broker
        self._committer = committer
        self._end_turn = end_turn
        self._until = 0.0

    @property
    def due(self) -> bool:
        """True if a timer is due, deliveries are pending, or background work is under way."""
        return self._timer_due or self._broker.turn.pending or bool(self._broker.background_work.works)

    @property
    def unwritten(self) -> bool:
        """True if changes are not on disk yet."""
        return self._committer.unfinished

    @property
    def _timer_due(self) -> bool:
        due = self._broker.timers.next_due()
        return due is not None and due <= self._broker.clock.now()

    async def settle(self) -> None:
        """Return when nothing is due any more, except work that waits for a full disk."""
        work = self._broker.background_work
        while self.due:
            self._broker.timers.run(self._broker.clock.now())
            self._end_turn()
            if work.waits and self._broker.batches.disk_full:
                return
            if work.waits:
                await self.stored()
            if work.works and not self._timer_due:
                await trio.sleep(PACE_SECONDS)
            elif monotonic() > self._until:
                await trio.lowlevel.checkpoint()
                self._until = monotonic() + STEP_SECONDS

    async def caught_up(self) -> None:
        """Return when LMDB has all batches, and the committer is idle."""
        await self.stored()
        await self._committer.catch_up()

    async def stored(self) -> None:
        """Return when all changes so far are on disk, unless the disk is full."""
        await self._committer.flush()
        self._end_turn()
