"""What makes void everything that is remembered of permissions and routes, in one step however much that is."""

from __future__ import annotations


class CacheEpoch:
    """A number that grows when what was found out before may no longer hold."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        """What was found out until now is to be found out anew."""
        self.number += 1
