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
    mark_name,
    piece_name,
    seal,
    unseal,
)
from storage.ship.targets.ship_target import PieceExists, ShipTarget
from storage.storage_errors import StoreCorrupt

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
        self._marked = 0
        """Bases that were marked."""
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
            self._put(*self._sealed)
            self._sealed = None

    def mark_base(self) -> None:
        """Mark the next piece as the end of a base. Raises OSError, and then it may be tried again."""
        self._put(mark_name(self._marked + 1), (b"%d" % (self.number + 1),))
        self._marked += 1

    def _put(self, name: str, parts: tuple[bytes, ...]) -> None:
        """Put a piece. One without its end, as a server leaves it that loses its memory, is replaced.

        Nobody was told that it is there.
        """
        try:
            self._target.put(self.chain, name, parts)
        except PieceExists:
            if _is_whole(self._target.get(self.chain, name)):
                raise
            self._target.remove(self.chain, name)
            self._target.put(self.chain, name, parts)


def _is_whole(data: bytes) -> bool:
    try:
        unseal(data, "")
    except StoreCorrupt:
        return False
    return True
