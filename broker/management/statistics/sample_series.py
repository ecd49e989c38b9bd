"""The past of one thing's counters: rows of integers, one for each moment at which something had changed.

What does not change stores nothing. A row is a slot - time in steps of five seconds since the epoch - and all values at
that moment; between two rows the values are those of the first. Rings of several widths have the same past, each with
fewer and longer slots than the one before, and reach further back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

SLOT_SECONDS = 5
"""How often everything is sampled."""
SLOT_MILLISECONDS = SLOT_SECONDS * 1000

SERIES_BYTES = 1024
"""What a series takes beside its rows, roughly."""

_MASK = (1 << 32) - 1
_HALF = 1 << 31

Row = tuple[Any, ...]
"""Integers, or numbers with fractions."""


class SeriesKind(NamedTuple):
    """What series of one kind have in common: the names of their columns, their rings, and the form of their rows.

    Rings are pairs: how many slots of five seconds one of theirs takes, and how many of these are kept. `typecode` is
    that of `array`: "I" for columns that change by less than 2,147,483,648 as long as they are remembered, "q" for
    other integers, "d" for what has fractions.
    """

    columns: tuple[str, ...]
    rings: tuple[tuple[int, int], ...]
    typecode: str


FINE = ((1, 121), (12, 61))
"""Ten minutes in slots of 5 s, an hour in slots of a minute."""
LONG = (*FINE, (120, 49), (360, 48))
"""Eight hours in slots of ten minutes, and a day in slots of half an hour as well."""


class Ring:
    """Rows of one width. `base` are the values before the first row."""

    __slots__ = ("after", "base", "length", "rows", "stale", "width")

    def __init__(self, width: int, length: int, kind: SeriesKind) -> None:
        self.width = width
        self.length = length
        self.base: Row = (0,) * len(kind.columns)
        self.rows = array(kind.typecode)
        self.stale = False
        """The values have changed since its last row: they are the next row, at the next slot of its width."""
        self.after = 0
        """The slot of its width, counted in that width, after which that is."""

    @property
    def seconds(self) -> int:
        """How far back it reaches."""
        return self.width * self.length * SLOT_SECONDS

    def add(self, slot: int, row: Row) -> None:
        """The values at a slot, which is later than all others; rows that are too old go."""
        rows, stride = self.rows, len(row) + 1
        rows.append(slot)
        rows.extend([value & _MASK for value in row] if rows.typecode == "I" else row)
        self.stale = False
        oldest = slot - self.width * self.length
        while rows[0] <= oldest:
            self.base = tuple(rows[1:stride])
            del rows[:stride]

    def forget(self, row: Row) -> None:
        """Keep no past: the values have been the same all the time, or are said to have been."""
        self.base, self.stale = row, False
        del self.rows[:]

    def places(self, slots: Iterable[int], stride: int) -> list[int]:
        """Which rows hold at some slots, counted from 1; 0: what was before the first."""
        times = self.rows[::stride]
        return [bisect_right(times, slot) for slot in slots]

    def values(self, column: int, places: Iterable[int], stride: int) -> list[Any]:
        """The values of one column in some rows."""
        values = [self.base[column], *self.rows[column + 1 :: stride]]
        return [values[place] for place in places]


class Series:
    """The past of one thing. `latest` are the values since the slot `changed`, `before` those of the sample before."""

    __slots__ = ("before", "changed", "kind", "latest", "rings")

    def __init__(self, kind: SeriesKind) -> None:
        self.kind = kind
        self.before: Row = (0,) * len(kind.columns)
        self.latest: Row = self.before
        self.changed = 0
        self.rings = tuple(Ring(width, length, kind) for width, length in kind.rings)

    def begin(self, row: Row) -> None:
        """These values were there before anything was sampled."""
        self.before = self.latest = row
        self.forget()

    @property
    def size(self) -> int:
        """What it takes in memory, in bytes, roughly."""
        return SERIES_BYTES + sum(len(ring.rows) * ring.rows.itemsize for ring in self.rings)

    def sample(self, slot: int, row: Row) -> None:
        """The values at a slot, later than the one before."""
        if row != self.latest:
            self.before, self.latest, self.changed = self.latest, row, slot
            for ring in self.rings:
                if not ring.stale:
                    ring.stale, ring.after = True, (slot - 1) // ring.width
        for ring in self.rings:
            if ring.stale:
                if slot // ring.width > ring.after:
                    ring.add(slot // ring.width * ring.width, row)
            elif ring.rows and ring.rows[-len(row) - 1] <= slot - ring.width * ring.length:
                ring.forget(row)

    def forget(self) -> None:
        """Keep no samples but the latest two: rates stay what they are."""
        for ring in self.rings:
            ring.forget(self.latest)

    def change(self, column: int) -> Any:
        """How much a column changed with the sample that changed last."""
        return self.latest[column] - self.before[column]

    def at(self, slots: Iterable[int], age_seconds: int) -> Callable[[int], list[Any]]:
        """What gives the values of a column at some slots, none older than an age; zeros before there was anything."""
        ring = next((ring for ring in self.rings if ring.seconds >= age_seconds), self.rings[-1])
        stride = len(self.latest) + 1
        places = ring.places(slots, stride)
        return lambda column: self._whole(column, ring.values(column, places, stride))

    def _whole(self, column: int, found: list[Any]) -> list[Any]:
        """Values of a column as they were before they were put into rows."""
        if self.kind.typecode == "d":
            return [int(value) if value == int(value) else value for value in found]
        if self.kind.typecode != "I":
            return found
        latest = self.latest[column]
        return [latest + (value - latest + _HALF) % (1 << 32) - _HALF for value in found]
