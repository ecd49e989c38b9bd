"""ShipRetention at a target: pieces that no moment needs which is to be kept."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from storage.ship.sealed_piece import parse_piece_name
from storage.ship.shipped_chains import ShippedBase, chains_of_store, read_bases
from storage.ship.targets.ship_target import ShipTarget


class ShipRetention(NamedTuple):
    """Seconds for which moments can be restored, and bases that are kept at least."""

    seconds: float
    bases: int

    def first_kept(self, bases: Sequence[ShippedBase], now: float) -> ShippedBase | None:
        """Return the oldest base to keep, of bases in their order; all before it may go. None: all are kept.

        It is the newest that is old enough for all moments to be kept, or an older one, if there would be too few.
        """
        old = [at for at, base in enumerate(bases) if base.time / 1000 <= now - self.seconds]
        first = min(old[-1], len(bases) - self.bases) if old else 0
        return bases[first] if first > 0 else None


def remove_expired(target: ShipTarget, retention: ShipRetention) -> Iterator[None]:
    """Remove what is not kept, one piece for each step. Oldest first: what is left can be restored. Raises OSError."""
    bases = read_bases(target).found
    kept = retention.first_kept(bases, time.time())
    if kept is None:
        return
    needed = {base.chain for base in bases[bases.index(kept) :]}
    expired = {base.chain for base in bases} - needed
    for chain in chains_of_store(target):
        whole = chain in expired or (chain not in needed and chain < kept.chain)  # no base of that was ever whole
        if not whole and chain != kept.chain:
            continue
        for name in target.names(chain):
            parsed = parse_piece_name(name)
            if whole or (parsed is not None and parsed[0] < kept.first):
                target.remove(chain, name)
                yield
