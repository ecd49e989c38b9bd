"""Numbers, times and names as the report shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

NAME_CHARACTERS = 120


def number(value: float | None) -> str:
    """A count, with a comma behind thousands; a question mark if it is unknown."""
    return "?" if value is None else f"{value:,.0f}"


def short_number(value: float) -> str:
    """A number on an axis: 1.5k, 20M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Bytes: 12 KiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def duration(ms: float | None) -> str:
    """Milliseconds in the unit in which one would say it: 0.4 ms, 12 s, 3.1 h."""
    if ms is None:
        return ""
    for length, unit in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= length:
            return f"{ms / length:.3g} {unit}"
    return f"{ms:.2g} ms" if ms < 10 else f"{ms:.0f} ms"


def share(value: float | None) -> str:
    """A part of the whole, in percent; less than a hundredth of it is not nothing."""
    if value is None:
        return ""
    return "< 0.01 %" if 0 < value < 0.0001 else f"{100 * value:.3g} %"


def moment(value: datetime | str | None) -> str:
    """A time, in UTC, to the second."""
    if value is None:
        return ""
    time = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def instant(value: datetime | None) -> str:
    """A time of day, in UTC, to the millisecond."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def span(facts: Mapping[str, Any]) -> str:
    """Format the times from which and to which a log is, with the day once if it is the same."""
    first, last = moment(facts["from"]), moment(facts["until"])
    return f"{first} to {last[11:] if first[:10] == last[:10] else last}"


def seconds(value: int) -> str:
    """A length of time that is whole: second, 5 seconds, minute, 2 hours."""
    for length, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if value % length == 0:
            return unit if value == length else f"{value // length} {unit}s"
    return f"{value} seconds"


def counted(value: int, noun: str) -> str:
    """Format a count with its noun: 1 message, 2,000 messages, 3 copies."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{value:,} {noun if value == 1 else plural}"


def name(value: str | None) -> str:
    """Format a client's name: invisible and direction-changing characters are escaped, long names cut."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in value or "")
    return shown if len(shown) <= NAME_CHARACTERS else shown[: NAME_CHARACTERS - 1] + "…"


def sample(value: str) -> str:
    """A message's body, with its lines."""
    return "".join(each if each.isprintable() or each in "\n\t" else ascii(each)[1:-1] for each in value)
