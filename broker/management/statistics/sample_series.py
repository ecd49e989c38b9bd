"""The samples of one thing's counters: rows of integers, one for each moment at which a counter had changed.

Without a change nothing is stored. A row is a slot, which is time in steps of five seconds since the epoch, followed by
all values at that time; they hold until the next row. Several rings keep the same samples: each has wider slots than
the one before, and reaches further back.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

SLOT_SECONDS = 5
"""Interval of samples."""
SLOT_MILLISECONDS = SLOT_SECONDS * 1000

SERIES_BYTES = 1024
"""Approximate memory of a series beside its rows."""

_MASK = (1 << 32) - 1
_HALF = 1 << 31

Row = tuple[Any, ...]
"""Integers, or numbers with fractions."""


class SeriesKind(NamedTuple):
    """The names of columns, the rings and the row format of all series of one kind.

    A ring is a pair: the width of its slots in slots of five seconds, and the number of slots that are kept. `typecode`
    is that of `array`: "I" for columns that change by less than 2,147,483,648 within the longest ring, "q" for other
    integers, "d" for fractions.
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
        """The values have changed since the last row, and become the next row at the next slot of this width."""
        self.after = 0
        """The slot, counted in `width`, after which the next row is due."""

    @property
    def seconds(self) -> int:
        """Time that the ring covers."""
        return self.width * self.length * SLOT_SECONDS

    def add(self, slot: int, row: Row) -> None:
        """Add the values at a slot later than all others, and drop rows that are too old."""
        rows, stride = self.rows, len(row) + 1
        rows.append(slot)
        rows.extend([value & _MASK for value in row] if rows.typecode == "I" else row)
        self.stale = False
        oldest = slot - self.width * self.length
        while rows[0] <= oldest:
            self.base = tuple(rows[1:stride])
            del rows[:stride]

    def forget(self, row: Row) -> None:
        """Drop all rows, as if the values had always been these."""
        self.base, self.stale = row, False
        del self.rows[:]

    def places(self, slots: Iterable[int], stride: int) -> list[int]:
        """The rows whose values hold at some slots, counted from 1; 0 stands for `base`."""
        times = self.rows[::stride]
        return [bisect_right(times, slot) for slot in slots]

    def values(self, column: int, places: Iterable[int], stride: int) -> list[Any]:
        """The values of one column in some rows."""
        values = [self.base[column], *self.rows[column + 1 :: stride]]
        return [values[place] for place in places]


class Series:
    """The samples of one thing. `latest` holds since the slot `changed`; `before` is the sample before it."""

    __slots__ = ("before", "changed", "kind", "latest", "rings")

    def __init__(self, kind: SeriesKind) -> None:
        self.kind = kind
        self.before: Row = (0,) * len(kind.columns)
        self.latest: Row = self.before
        self.changed = 0
        self.rings = tuple(Ring(width, length, kind) for width, length in kind.rings)

    def begin(self, row: Row) -> None:
        """Start with values that were counted before the first sample."""
        self.before = self.latest = row
        self.forget()

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return SERIES_BYTES + sum(len(ring.rows) * ring.rows.itemsize for ring in self.rings)

    def sample(self, slot: int, row: Row) -> None:
        """Add the values at a slot later than the last one."""
        if row != self.latest:
            self.before, self.latest, self.changed = self.latest, row, slot
            for ring in self.rings:
                if not ring.stale:
                    # A change within a wide slot becomes a row at the beginning of the next one.
                    ring.stale, ring.after = True, (slot - 1) // ring.width
        for ring in self.rings:
            if ring.stale:
                if slot // ring.width > ring.after:
                    ring.add(slot // ring.width * ring.width, row)
            elif ring.rows and ring.rows[-len(row) - 1] <= slot - ring.width * ring.length:
                ring.forget(row)  # the last change is older than the ring reaches: `base` alone says the same

    def forget(self) -> None:
        """Drop all samples but the last two, so that rates stay."""
        for ring in self.rings:
            ring.forget(self.latest)

    def change(self, column: int) -> Any:
        """Change of a column by the last sample that differed from the one before."""
        return self.latest[column] - self.before[column]

    def at(self, slots: Iterable[int], age_seconds: int) -> Callable[[int], list[Any]]:
        """Return a function for the values of a column at slots up to an age back; 0 before the first sample."""
        ring = next((ring for ring in self.rings if ring.seconds >= age_seconds), self.rings[-1])
        stride = len(self.latest) + 1
        places = ring.places(slots, stride)
        return lambda column: self._whole(column, ring.values(column, places, stride))

    def _whole(self, column: int, found: list[Any]) -> list[Any]:
        """Restore the values of a column from rows, which keep only 32 bits of integers of typecode "I"."""
        if self.kind.typecode == "d":
            return [int(value) if value == int(value) else value for value in found]
        if self.kind.typecode != "I":
            return found
        # Differences fit 31 bits, so the upper bits of an older value are those that are nearest to the latest one.
        latest = self.latest[column]
        return [latest + (value - latest + _HALF) % (1 << 32) - _HALF for value in found]
