"""Limits of concurrent work, in all and for each client address: no address can take every slot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class WorkSlots:
    """At most `total` slots in all, and at most `of_one_address` for one address.

    A task that waits for a slot of its own address is not in the queue for the slots in all. So the only client of an
    address gets a slot as soon as each of the other addresses has had one.
    """

    def __init__(self, total: int, of_one_address: int) -> None:
        self._total = trio.CapacityLimiter(total)
        self._of_one_address = of_one_address
        self._of_address: dict[str, trio.CapacityLimiter] = {}

    @asynccontextmanager
    async def slot(self, address: str) -> AsyncIterator[None]:
        """Wait for a slot, and hold it while the context is entered."""
        own = self._of_address.setdefault(address, trio.CapacityLimiter(self._of_one_address))
        try:
            async with own, self._total:
                yield
        finally:
            if not own.borrowed_tokens:
                self._of_address.pop(address, None)
