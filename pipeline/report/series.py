"""Points in time for charts: how wide they are, and values laid out on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

POINTS_MAX = 180
WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880, 10080)
"""Minutes that a point may stand for."""

Values = Sequence[float | None]


class Axis(NamedTuple):
    """Moments that follow each other, each so many minutes behind the last."""

    begin: datetime
    minutes: int
    points: int

    @property
    def times(self) -> list[datetime]:
        """The moments."""
        return [self.begin + timedelta(minutes=self.minutes * at) for at in range(self.points)]

    @property
    def seconds(self) -> int:
        """How long each is."""
        return self.minutes * 60


def axis(first: int, last: int) -> Axis:
    """As few minutes for each point as give no more than POINTS_MAX from one minute to another, by their seconds."""
    minutes = (last - first) // 60 + 1
    width = 60 * next((each for each in WIDTHS if minutes <= each * POINTS_MAX), -(-minutes // POINTS_MAX))
    begin = first // width * width
    return Axis(datetime.fromtimestamp(begin, UTC), width // 60, (last - begin) // width + 1)


def laid_out(values: Mapping[int, float | None], points: int, *, missing: float | None = None) -> list[float | None]:
    """Values by their places; what has none is `missing`."""
    return [values.get(place, missing) for place in range(points)]


def carried_on(values: Mapping[int, float | None], points: int) -> list[float | None]:
    """Values by their places; what has none is what was before. None is unknown, and is carried on as well."""

    def steps() -> Iterator[float | None]:
        last: float | None = None
        for place in range(points):
            last = values.get(place, last)
            yield last

    return list(steps())
