"""Defers a commit until the event loop has come round, so that other clients that are ready add to the batch."""

from __future__ import annotations

from collections.abc import Callable

import trio


class DeferredCommit:
    """Calls an action after each task that was ready has run. It is called only while `run` runs."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._requested = trio.Event()
        self._number, self._since = 0, 0.0
        self.running = False

    def request(self, number: int) -> float:
        """Request the action for a batch, unless it was; return the seconds since the first request."""
        now = trio.current_time()
        if number != self._number:
            self._number, self._since = number, now
            self._requested.set()
        return now - self._since

    async def run(self) -> None:
        """Call the action after each request, until cancelled."""
        self.running = True
        try:
            while True:
                await self._requested.wait()
                self._requested = trio.Event()
                self._action()
        finally:
            self.running = False
