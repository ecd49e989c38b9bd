"""Charts as inline SVG: small, without scripts, in the colours of the page's style sheet.

Matplotlib draws in placeholder colours, each of which is replaced by a variable of the style sheet; so a chart is
readable in light, in dark and on paper. Only numbers and times of the log are drawn: names are left to the page, which
escapes them.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from pipeline.report.series import Axis, Mark, Values
from pipeline.report.wording import duration, short_number

logging.getLogger("matplotlib.font_manager").disabled = True  # logs that it builds its cache the first time

COLOURS = {
    "#010101": "var(--muted)",
    "#020202": "var(--grid)",
    "#030303": "var(--first)",
    "#040404": "var(--second)",
    "#050505": "var(--third)",
    "#060606": "var(--fourth)",
    "#070707": "var(--bad)",
    "#080808": "var(--doubt)",
}
MUTED, GRID, *SERIES, BAD, DOUBT = COLOURS
INCHES = (3.6, 1.75)
MARKS: dict[str, dict[str, Any]] = {
    "start": {"color": MUTED, "linewidth": 0.5, "linestyle": (0, (1, 2))},
    "stop": {"color": MUTED, "linewidth": 0.8},
    "kill": {"color": BAD, "linewidth": 0.8, "linestyle": (0, (3, 2))},
    "gap": {"color": DOUBT, "linewidth": 2, "alpha": 0.6},
}
MARKS_MAX = 60
"""Marks of one kind at most; more are not drawn, because they would hide the chart."""
STYLE: dict[Any, Any] = {
    "font.size": 7.5,
    "svg.fonttype": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 2.5,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "lines.linewidth": 1.2,
    "lines.solid_joinstyle": "round",
}
NEEDLESS = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"<metadata>.*?</metadata>",
        r"<style.*?</style>",
        r'(?<=<g) id="[^"]*"',
        r' (?:width|height)="[\d.]+pt"',
        r"font[a-z-]*: [^;\"]*;",
        r' transform="rotate\(-0 [^"]*"',
    )
]
"""Parts of the SVG that are removed: the page sets fonts and sizes."""


class Line(NamedTuple):
    """Values along an axis, an index into SERIES, the name at its end, and the form: `steps` hold their value."""

    values: Values
    colour: int
    name: str = ""
    kind: Literal["line", "dashes", "area", "steps"] = "line"


class Time(NamedTuple):
    """The axis of charts, and the marks on it."""

    axis: Axis
    marks: Sequence[Mark] = ()


def durations_chart(along: Time, lines: Sequence[Line]) -> str:
    """Draw milliseconds on a logarithmic scale."""

    def scale(axes: Axes) -> None:
        known = [value for line in lines for value in line.values if value is not None]
        axes.set_yscale("log")
        low, high = max(min(known, default=1), 0.01), max(max(known, default=10), 0.1)
        axes.set_ylim(low / 1.6, high * 1.6 if high > low * 10 else low * 16)
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _at: ""))

    return _chart(along, [line._replace(values=_positive(line.values)) for line in lines], scale)


def amounts_chart(along: Time, lines: Sequence[Line], unit: str = "") -> str:
    """Draw numbers on a linear scale from zero."""

    def scale(axes: Axes) -> None:
        known = [value for line in lines for value in line.values if value is not None]
        axes.set_ylim(0, max(max(known, default=0) * 1.08, 1e-9 if unit else 1))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=not unit))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value) + unit))

    return _chart(along, lines, scale)


def _chart(along: Time, lines: Sequence[Line], scale: Callable[[Axes], None]) -> str:
    times = along.axis.times
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=INCHES)
        axes = figure.add_axes((0.12, 0.13, 0.72, 0.82))
        for line in lines:
            _draw(axes, times, line)
        scale(axes)
        _mark(axes, along)
        _name(axes, lines)
        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
        if len(times) > 1:
            end: Any = times[-1] + (times[1] - times[0])
            axes.set_xlim(times[0], end)  # type: ignore[arg-type]
        written = io.StringIO()
        FigureCanvasSVG(figure).print_svg(written, metadata={"Date": None, "Creator": None})
    return _themed(written.getvalue())


def _draw(axes: Axes, times: list[datetime], line: Line) -> None:
    """Draw a line that breaks at unknown values. A value without neighbours is a dot."""
    moments: Any = times
    values = [float("nan") if value is None else value for value in line.values]
    colour = SERIES[line.colour]
    if line.kind == "dashes":
        axes.plot(moments, values, color=colour, linestyle=(0, (4, 1.5)))
    if line.kind == "steps":
        axes.step(moments, values, color=colour, where="post")
    if line.kind in ("area", "steps"):
        step = "post" if line.kind == "steps" else None
        axes.fill_between(moments, values, step=step, color=colour, alpha=0.25, linewidth=0)  # type: ignore[arg-type]
        return
    if line.kind == "line":
        axes.plot(moments, values, color=colour)
    lone = [at for at in range(len(values)) if _lone(line.values, at)]
    axes.plot([moments[at] for at in lone], [values[at] for at in lone], ".", markersize=3, color=colour)


def _mark(axes: Axes, along: Time) -> None:
    """Draw starts, stops, kills and gaps of the broker as lines across the chart."""
    for kind, look in MARKS.items():
        mine = [mark.at for mark in along.marks if mark.kind == kind]
        for at in mine if len(mine) <= MARKS_MAX else ():
            axes.axvline(at, zorder=0.5, **look)  # type: ignore[arg-type]


def _name(axes: Axes, lines: Sequence[Line]) -> None:
    """Write names at the ends of lines, without overlap."""
    ends = [(next((value for value in reversed(line.values) if value is not None), None), line) for line in lines]
    low, high = (axes.transData.transform((0, value))[1] for value in axes.get_ylim())
    taken = low - 9.0
    named = [(value, line) for value, line in reversed(ends) if value is not None and line.name]
    for value, line in sorted(named, key=_first):
        height = min(max(axes.transData.transform((0, max(value, axes.get_ylim()[0])))[1], taken + 11.0), high + 6.0)
        taken = height
        at = 1.02, (height - low) / (high - low)
        axes.text(*at, line.name, transform=axes.transAxes, color=SERIES[line.colour], va="center")


def _first(named: tuple[float, Line]) -> float:
    return named[0]


def _lone(values: Values, at: int) -> bool:
    beside = [*values[max(at - 1, 0) : at], *values[at + 1 : at + 2]]
    return values[at] is not None and all(value is None for value in beside)


def _positive(values: Values) -> list[float | None]:
    """Raise durations of 0 to the lower end of the scale, for the logarithm."""
    return [None if value is None else max(value, 0.01) for value in values]


def _themed(drawn: str) -> str:
    """Return the SVG element alone, in colours and fonts of the page, without NEEDLESS parts."""
    element = drawn[drawn.index("<svg") :]
    for needless in NEEDLESS:
        element = needless.sub("", element)
    for drawn_in, meant in COLOURS.items():
        element = element.replace(drawn_in, meant)
    element = re.sub(r"(\.\d\d)\d+", r"\1", element)  # a hundredth of a pixel is enough
    element = re.sub(r"\s+", " ", element).replace("> <", "><").strip()
    return element.replace("<svg", '<svg aria-hidden="true"', 1)
