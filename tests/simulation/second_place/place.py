"""The second place, in memory, as each machine reaches it: late, full, with late listings, or not at all."""

from __future__ import annotations

import errno
from random import Random
from typing import final

from storage.ship.targets.ship_target import PieceExists, TargetError
from tests.simulation.second_place.turn_taking import this_turn
from tests.simulation.world.virtual_time import Times

USUAL, SLOW = 20, 900
"""Longest time of one way to the place and back, in milliseconds."""
NO_ANSWER = 1000
LATE_MAX = 8000
"""Longest time until a listing has what was put."""


@final
class Place:
    """The objects. `late`: listings are; `full`: nothing can be put."""

    def __init__(self, chance: Random, times: Times) -> None:
        self.chance = chance
        self.times = times
        self.late = self.full = False
        self.objects: dict[tuple[str, str], bytes] = {}
        self._listed_at: dict[tuple[str, str], int] = {}

    def put(self, path: tuple[str, str], data: bytes) -> None:
        """Put an object on condition that there is none."""
        if path not in self.objects:
            if self.full:
                raise OSError(errno.ENOSPC, "the place is full")
            self.objects[path] = data
            self._listed_at[path] = self.times.now + (self.chance.randint(0, LATE_MAX) if self.late else 0)
        elif self.objects[path] != data:
            raise PieceExists("/".join(path))

    def remove(self, path: tuple[str, str]) -> None:
        """Remove an object, if it is there."""
        self.objects.pop(path, None)

    def listed(self) -> list[tuple[str, str]]:
        """Return the paths that listings have by now, in their order."""
        return sorted(path for path in self.objects if self._listed_at[path] <= self.times.now)


@final
class PlaceOfMachine:
    """The place as one machine has it; see `ShipTarget`. A call may be cut off before or behind its effect."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.reached = True
        self.slow = False

    def __str__(self) -> str:
        return "the place"

    def _go(self) -> None:
        this_turn().pause(self._place.chance.randint(0, SLOW if self.slow else USUAL))
        if not self.reached:
            this_turn().pause(NO_ANSWER)
            raise TargetError("the place does not answer")

    def begin(self, chain: str) -> None:
        self._go()

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        self._go()
        self._place.put((chain, name), b"".join(parts))
        self._go()

    def chains(self) -> list[str]:
        self._go()
        return sorted({chain for chain, _name in self._place.listed()})

    def names(self, chain: str) -> list[str]:
        self._go()
        return [name for of, name in self._place.listed() if of == chain]

    def get(self, chain: str, name: str) -> bytes:
        self._go()
        data = self._place.objects.get((chain, name))
        self._go()
        if data is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", name)
        return data

    def remove(self, chain: str, name: str) -> None:
        self._go()
        self._place.remove((chain, name))
        self._go()

    def close(self) -> None:
        """Do nothing."""
