"""The cache epoch: raising it invalidates every cached route and permission at once, in constant time."""

from __future__ import annotations


class CacheEpoch:
    """A number that caches compare: an entry made under a lower number is stale."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        """Invalidate everything cached so far."""
        self.number += 1
