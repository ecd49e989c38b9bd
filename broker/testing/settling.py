"""Having the broker do everything that is due, before an order is answered."""

from __future__ import annotations

from collections.abc import Callable

import trio

from broker.admin.short_steps import pause_if_due
from broker.entities.vhosts.broker import Broker
from broker.server.committer import Committer


class Settling:
    """Does what is due at this moment of the broker's clock; the engine does the same beside it."""

    def __init__(self, broker: Broker, committer: Committer, end_turn: Callable[[], None]) -> None:
        self._broker = broker
        self._committer = committer
        self._end_turn = end_turn

    @property
    def due(self) -> bool:
        """There is something to do: a timer is due, a turn left something over, or work is under way."""
        return self._timer_due or self._broker.turn.pending or bool(self._broker.background_work.line)

    @property
    def unwritten(self) -> bool:
        """Something is gathered that is not on disk."""
        return self._committer.unfinished

    @property
    def _timer_due(self) -> bool:
        due = self._broker.timers.next_due()
        return due is not None and due <= self._broker.clock.now()

    async def settle(self) -> None:
        """Return when nothing is due any more. Work that waits for a full disk is left to it."""
        while self.due:
            self._broker.timers.run(self._broker.clock.now())
            self._end_turn()
            if self._broker.background_work.line and not self._timer_due:
                if self._broker.batches.no_room:
                    return
                await self._disk_moves()
            await pause_if_due()

    async def _disk_moves(self) -> None:
        """Work is under way that is not due now: it waits for the disk, or, while the clock goes on, a millisecond."""
        await self.stored()
        if not self._timer_due:
            await trio.sleep(0.001)

    async def stored(self) -> None:
        """Return when everything gathered so far is on disk, unless the disk is full."""
        await self._committer.flush()
        self._end_turn()
