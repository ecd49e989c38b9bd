"""Points in time for charts: their width, their values, and the marks of starts, stops, kills and gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

POINTS_MAX = 180
WIDTHS = (
    *(1, 2, 5, 10, 20, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 10080)),
)
"""Seconds that a point may stand for."""

Values = Sequence[float | None]


class Axis(NamedTuple):
    """Points in time, each `seconds` after the last."""

    begin: datetime
    seconds: int
    points: int

    @property
    def times(self) -> list[datetime]:
        """The moments."""
        return [self.begin + timedelta(seconds=self.seconds * at) for at in range(self.points)]


class Mark(NamedTuple):
    """A mark: a start, an orderly stop, a kill, or a doubtful gap in the log."""

    at: datetime
    kind: Literal["start", "stop", "kill", "gap"]


def axis(first: int, last: int, bin_seconds: int) -> Axis:
    """Return the axis from one bin to another, by their begins, with the fewest seconds that give POINTS_MAX points."""
    span = last - first + bin_seconds
    widths = [width for width in WIDTHS if width % bin_seconds == 0]
    width = next((each for each in widths if span <= each * POINTS_MAX), -(-span // POINTS_MAX // 60) * 60)
    begin = first // width * width
    return Axis(datetime.fromtimestamp(begin, UTC), width, (last - begin) // width + 1)


def marks(boots: Iterable[Mapping[str, Any]], gaps: Iterable[Mapping[str, Any]]) -> list[Mark]:
    """Yield the marks of every axis. A boot without a stop or a later boot still runs."""
    found = list[Mark]()
    for boot in boots:
        found.append(Mark(boot["first_ts"], "start"))
        if boot["stopped"] is not None:
            found.append(Mark(boot["last_ts"], "stop"))
        elif boot["next"] is not None:
            found.append(Mark(boot["last_ts"], "kill"))
    return sorted(
        [*found, *(Mark(gap["at_ts"], "gap") for gap in gaps if gap["doubtful"] and gap["at_ts"] is not None)]
    )


def laid_out(values: Mapping[int, float | None], points: int, *, missing: float | None = None) -> list[float | None]:
    """Lay out values by their places; a place without one is `missing`."""
    return [values.get(place, missing) for place in range(points)]


def carried_on(values: Mapping[int, float | None], points: int) -> list[float | None]:
    """Lay out values by their places; a place without one repeats the value before.

    None is unknown, and repeated too.
    """

    def steps() -> Iterator[float | None]:
        last: float | None = None
        for place in range(points):
            last = values.get(place, last)
            yield last

    return list(steps())
