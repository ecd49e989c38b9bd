"""A commit put off until the event loop comes round again: other clients that are ready add to the batch."""

from __future__ import annotations

from collections.abc import Callable

import trio


class DeferredCommit:
    """Has an action done once each task that was ready has had its turn. It is done only while `run` runs."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._requested = trio.Event()
        self._number, self._since = 0, 0.0
        self.running = False

    def request(self, number: int) -> float:
        """Request it for a batch, unless that was done; the seconds since it was."""
        now = trio.current_time()
        if number != self._number:
            self._number, self._since = number, now
            self._requested.set()
        return now - self._since

    async def run(self) -> None:
        """Do it whenever it was requested."""
        self.running = True
        try:
            while True:
                await self._requested.wait()
                self._requested = trio.Event()
                self._action()
        finally:
            self.running = False
