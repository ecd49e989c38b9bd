"""The names of the chains at a place, told by the epochs: a listing may lack the newest for a while.

Behind its epoch, and before its first piece, a broker puts an object with the number of the epoch, which names its
chain and those before it. The numbers have no gap, so the newest of these objects is found by name alone.
"""

from __future__ import annotations

from typing import final

import msgspec

from storage.ship.place_epochs import FOLDER, newest_epoch, read_epoch
from storage.ship.targets.ship_target import ShipTarget
from storage.storage_errors import StoreCorrupt

NAMED = 16
"""Chains that one object names: as many starts may go by before a listing has the first of them."""
LOOKED_BACK = 64
"""Epochs without a chain, of promotions and of starts that failed, behind which no object is looked for."""

_decode = msgspec.json.Decoder(list[str]).decode


def announcement(target: ShipTarget, number: int, chain: str) -> bytes:
    """Return the object that announces the chain of an epoch. Raises OSError."""
    return msgspec.json.encode([*_named(target, number - 1)[1 - NAMED :], chain])


def announce(target: ShipTarget, number: int, data: bytes) -> None:
    """Put the object of an epoch. Raises OSError."""
    target.put(FOLDER, _name(number), (data,))


@final
class AnnouncedChains:
    """The newest chains of a place, asked for again and again. One thread uses it."""

    def __init__(self, target: ShipTarget) -> None:
        self._target = target
        self._number = 0
        self._chains: list[str] = []
        self._is_named = False
        """True once the newest epoch's own object was read."""

    def names(self) -> list[str]:
        """Return the names; those known so far, if the newest epoch cannot be read. Raises OSError."""
        try:
            number = self._newest()
        except StoreCorrupt:
            return self._chains
        if number != self._number or not self._is_named:
            own = _read(self._target, number)
            self._is_named = own is not None
            if own is not None or number != self._number:
                self._chains = _named(self._target, number - 1) if own is None else own
            self._number = number
        return self._chains

    def _newest(self) -> int:
        if not self._number:
            newest = newest_epoch(self._target)
            return 0 if newest is None else newest.number
        number = self._number
        while read_epoch(self._target, number + 1) is not None:
            number += 1
        return number


def _named(target: ShipTarget, number: int) -> list[str]:
    """Return the chains that were named up to an epoch."""
    for each in range(number, max(0, number - LOOKED_BACK), -1):
        if (named := _read(target, each)) is not None:
            return named
    return []


def _read(target: ShipTarget, number: int) -> list[str] | None:
    """Read an object; None if it is not there, or is damaged: then listings are all there is."""
    try:
        return _decode(target.get(FOLDER, _name(number)))
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def _name(number: int) -> str:
    return f"{number:012d}.chains"
