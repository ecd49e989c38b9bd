"""A place with some of the pieces that a broker has shipped, to be restored from."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple


class ShippedPiece(NamedTuple):
    """A piece as it was put: its chain, its name, its bytes, and the event of the record by which it was there.

    Epochs and marks of bases are put as pieces are.
    """

    chain: str
    name: str
    data: bytes
    event: int

    @property
    def path(self) -> str:
        """The chain and the name."""
        return f"{self.chain}/{self.name}"


class ChosenPieces:
    """The place, in memory; see `ShipTarget`. Nothing is written to it. `unlisted`: paths that no listing has yet."""

    def __init__(self, pieces: Iterable[ShippedPiece], unlisted: Collection[str] = ()) -> None:
        self._chains: dict[str, dict[str, bytes]] = {}
        self._listed: dict[str, list[str]] = {}
        for piece in pieces:
            self._chains.setdefault(piece.chain, {})[piece.name] = piece.data
            if piece.path not in unlisted:
                self._listed.setdefault(piece.chain, []).append(piece.name)

    def __str__(self) -> str:
        return "the place"

    def chains(self) -> list[str]:
        """Return the names of the chains."""
        return sorted(self._listed)

    def names(self, chain: str) -> list[str]:
        """Return the names of the pieces of a chain."""
        return sorted(self._listed.get(chain, ()))

    def get(self, chain: str, name: str) -> bytes:
        """Return a piece."""
        try:
            return self._chains.get(chain, {})[name]
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
