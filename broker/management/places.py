"""Places for work that few may do at a time, shared out by address: none of them can take every place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Places:
    """So many places in all, and fewer for one address.

    Who waits for a place of its own address stands in no line with the others, so whoever is alone at its address comes
    up as soon as each of the other addresses has been served once.
    """

    def __init__(self, total: int, of_one_address: int) -> None:
        self._total = trio.CapacityLimiter(total)
        self._of_one_address = of_one_address
        self._of_address: dict[str, trio.CapacityLimiter] = {}

    @asynccontextmanager
    async def place(self, address: str) -> AsyncIterator[None]:
        """Wait for a place, and have it as long as this is entered."""
        own = self._of_address.setdefault(address, trio.CapacityLimiter(self._of_one_address))
        try:
            async with own, self._total:
                yield
        finally:
            if not own.borrowed_tokens:
                self._of_address.pop(address, None)
