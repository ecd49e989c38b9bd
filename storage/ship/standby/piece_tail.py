"""The pieces of a chain as they come: the next one is asked for by name, so nothing is listed while it grows."""

from __future__ import annotations

from typing import final

from storage.ship.sealed_piece import OpenedPiece, PieceKind, parse_piece_name, piece_name, unseal
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt

_RECORDS, _MESSAGES, _DEFINITIONS, _BASE = PieceKind.RECORDS, PieceKind.MESSAGES, PieceKind.DEFINITIONS, PieceKind.BASE
_BEHIND = {
    _BASE: (_RECORDS, _MESSAGES),
    _MESSAGES: (_RECORDS, _MESSAGES, _DEFINITIONS),
    _DEFINITIONS: (_RECORDS, _DEFINITIONS, _BASE, _MESSAGES),
}
"""Kinds of the next piece, by that of the last one that was part of a base: a copy may be ended, and begun again."""


@final
class PieceTail:
    """Reads a chain behind one of its pieces. One thread at a time uses it."""

    def __init__(self, target: ShipTarget, chain: str, number: int, digest: bytes) -> None:
        """`number` and `digest`: of the piece read last."""
        self._target = target
        self._chain = chain
        self.number = number
        self.digest = digest
        self._part = _DEFINITIONS

    def next(self) -> OpenedPiece | None:
        """Read the next piece; None if it is not there yet. `passed` goes on to the one behind it.

        Raises StoreCorrupt if it is damaged or does not follow, and OSError.
        """
        for kind in _BEHIND[self._part]:
            name = piece_name(self.number + 1, kind)
            try:
                data = self._target.get(self._chain, name)
            except FileNotFoundError:
                continue
            return self._checked(unseal(data, f"{self._chain}/{name}"), kind)
        return None

    def passed(self, opened: OpenedPiece) -> None:
        """Go on behind a piece that `next` has returned."""
        self.number, self.digest = opened.piece.number, opened.digest
        if opened.piece.kind is not _RECORDS:
            self._part = opened.piece.kind

    def refuse_hole(self) -> None:
        """Raise StoreCorrupt if the next piece is missing although later ones are there. It lists the chain."""
        later = [
            parsed[0] for name in self._target.names(self._chain) if (parsed := parse_piece_name(name)) is not None
        ]
        hole = max(later, default=0) > self.number + 1 and self.number + 1 not in later
        if hole and self.next() is None:  # a listing may lack it, and it may have come since it was asked for
            raise StoreCorrupt(f"piece {self.number + 1} of {self._chain} is missing")

    def _checked(self, opened: OpenedPiece, kind: PieceKind) -> OpenedPiece:
        name = f"{self._chain}/{piece_name(self.number + 1, kind)}"
        if (opened.piece.number, opened.piece.kind) != (self.number + 1, kind):
            raise StoreCorrupt(f"{name} is another piece than its name says")
        if opened.piece.previous != self.digest:
            raise StoreCorrupt(f"{name} does not follow the piece before it")
        return opened
