"""A place with some of the pieces that a broker has shipped, to be restored from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class ShippedPiece(NamedTuple):
    """A piece as it was put: its chain, its name, its bytes, and the event of the record by which it was there."""

    chain: str
    name: str
    data: bytes
    event: int


class ChosenPieces:
    """The place, in memory; see `ShipTarget`. Nothing is written to it."""

    def __init__(self, pieces: Iterable[ShippedPiece]) -> None:
        self._chains: dict[str, dict[str, bytes]] = {}
        for piece in pieces:
            self._chains.setdefault(piece.chain, {})[piece.name] = piece.data

    def __str__(self) -> str:
        return "the place"

    def chains(self) -> list[str]:
        """Return the names of the chains."""
        return sorted(self._chains)

    def names(self, chain: str) -> list[str]:
        """Return the names of the pieces of a chain."""
        return sorted(self._chains[chain])

    def get(self, chain: str, name: str) -> bytes:
        """Return a piece."""
        try:
            return self._chains[chain][name]
        except KeyError:
            raise FileNotFoundError(2, "no such piece", name) from None

    def begin(self, chain: str) -> None:
        """Refuse: it is read alone."""
        raise AssertionError(f"{chain} is begun at a place that is read alone")

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        """Refuse: it is read alone."""
        raise AssertionError(f"{chain}/{name} is put at a place that is read alone")

    def remove(self, chain: str, name: str) -> None:
        """Refuse: it is read alone."""
        raise AssertionError(f"{chain}/{name} is removed from a place that is read alone")

    def close(self) -> None:
        """Do nothing."""
