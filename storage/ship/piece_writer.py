"""Writes the pieces of one chain, one after the other."""

from __future__ import annotations

import secrets
import time
from typing import final

from storage.ship.sealed_piece import (
    Piece,
    PieceKind,
    StoreName,
    chain_name,
    digest_before_first,
    piece_name,
    seal,
)
from storage.ship.targets.ship_target import ShipTarget

SALT_BYTES = 4


@final
class PieceWriter:
    """The writer of a new chain, for one thread. A piece that was sealed is put before the next is."""

    def __init__(self, target: ShipTarget, store: StoreName) -> None:
        self.chain = str(chain_name(store, secrets.token_bytes(SALT_BYTES)))
        self._target = target
        self._store = store
        self._previous = digest_before_first(self.chain)
        self._sealed: tuple[str, tuple[bytes, ...]] | None = None
        self.number = 0
        """Number of the last piece that was sealed."""

    def seal(self, kind: PieceKind, first: int, payload: bytes) -> int:
        """Seal the next piece, to be put. Returns its bytes."""
        assert self._sealed is None, f"piece {self.number} is not put yet"
        self.number += 1
        piece = Piece(kind, self._store, self.number, first, time.time_ns() // 1_000_000, self._previous)
        header, self._previous = seal(piece, payload)
        self._sealed = piece_name(self.number, kind), (header, payload)
        return len(header) + len(payload)

    def put(self) -> None:
        """Put the piece that was sealed at the target. Raises OSError, and PieceExists; then it may be tried again."""
        if self._sealed is not None:
            if self.number == 1:
                self._target.begin(self.chain)
            self._target.put(self.chain, *self._sealed)
            self._sealed = None
