"""The operations of a target: a place that holds *pieces* by name in *chains*, each written once.

`put` is all that ever writes. Among several who put different contents under one name at a time, one succeeds and the
others are told so: a claim that only one may hold is a piece as well, in a chain of its own.
"""

from __future__ import annotations

from typing import Protocol

from storage.storage_errors import StoreError


class TargetError(OSError):
    """The target cannot be reached, or did not do what it was asked: it may be tried again later."""


class PieceExists(StoreError):
    """A piece of this name is there, with other contents: somebody else writes the same chain."""


class ShipTarget(Protocol):
    """A target. All methods block, and raise OSError (TargetError of a remote one) if it does not do what it should.

    They may be called from any thread. `str` names the target for people, without secrets.
    """

    def begin(self, chain: str) -> None:
        """Make a place for a chain, if there is none. The target itself must be there: a disk may not be mounted."""

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        """Write a new piece, durably: at each moment it is there whole or not at all, and is never written over.

        One that is there already with these contents is left, so a call whose answer was lost may be made again. Raises
        PieceExists if it has others.
        """

    def chains(self) -> list[str]:
        """Return the names of what may be chains, in the order of the alphabet."""

    def names(self, chain: str) -> list[str]:
        """Return the names of what may be pieces of a chain, in the order of the alphabet; none without the chain."""

    def get(self, chain: str, name: str) -> bytes:
        """Read a piece. Raises FileNotFoundError if there is none."""

    def remove(self, chain: str, name: str) -> None:
        """Remove a piece, if it is there, and a chain without pieces."""

    def close(self) -> None:
        """Give up connections, if there are any. Nothing may be called after it."""
