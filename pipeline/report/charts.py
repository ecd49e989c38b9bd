"""Charts as SVG that stands in a page: small, without scripts, in colours that the page's style sheet gives them.

Matplotlib draws in colours that serve as marks only, and each is then replaced by a variable of the style sheet; so a
chart is right in light and dark and on paper. Nothing from the log is drawn but numbers and times: names are the
page's, which escapes them.
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

from pipeline.report.series import Axis, Values
from pipeline.report.wording import duration, short_number

logging.getLogger("matplotlib.font_manager").disabled = True  # tells of its cache the first time

COLOURS = {
    "#010101": "var(--muted)",
    "#020202": "var(--grid)",
    "#030303": "var(--first)",
    "#040404": "var(--second)",
    "#050505": "var(--third)",
    "#060606": "var(--fourth)",
}
MUTED, GRID, *SERIES = COLOURS
INCHES = (3.6, 1.75)
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
"""The page has letters of its own, and a chart is as large as its place."""


class Line(NamedTuple):
    """Values along an axis; which of the series' colours; how it is drawn: line, area, or steps, which hold."""

    values: Values
    colour: int
    kind: Literal["line", "area", "steps"] = "line"


def durations_chart(along: Axis, lines: Sequence[Line]) -> str:
    """Milliseconds, on a logarithmic scale."""

    def scale(axes: Axes) -> None:
        known = [value for line in lines for value in line.values if value is not None]
        axes.set_yscale("log")
        low, high = max(min(known, default=1), 0.01), max(max(known, default=10), 0.1)
        axes.set_ylim(low / 1.6, high * 1.6 if high > low * 10 else low * 16)
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda _value, _at: ""))

    return _chart(along, [line._replace(values=_positive(line.values)) for line in lines], scale)


def amounts_chart(along: Axis, lines: Sequence[Line], unit: str = "") -> str:
    """Numbers from zero."""

    def scale(axes: Axes) -> None:
        known = [value for line in lines for value in line.values if value is not None]
        axes.set_ylim(0, max(max(known, default=0) * 1.08, 1e-9 if unit else 1))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=not unit))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value) + unit))

    return _chart(along, lines, scale)


def _chart(along: Axis, lines: Sequence[Line], scale: Callable[[Axes], None]) -> str:
    times = along.times
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=INCHES)
        axes = figure.add_axes((0.12, 0.13, 0.86, 0.82))
        for line in lines:
            _draw(axes, times, line)
        scale(axes)
        locator = AutoDateLocator(minticks=3, maxticks=6)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
        if len(times) > 1:
            axes.set_xlim(times[0], times[-1])  # type: ignore[arg-type]
        written = io.StringIO()
        FigureCanvasSVG(figure).print_svg(written, metadata={"Date": None, "Creator": None})
    return _themed(written.getvalue())


def _draw(axes: Axes, times: list[datetime], line: Line) -> None:
    """A line that breaks where nothing is known. What stands alone there is a dot."""
    moments: Any = times
    values = [float("nan") if value is None else value for value in line.values]
    colour = SERIES[line.colour]
    if line.kind == "steps":
        axes.step(moments, values, color=colour, where="post")
    if line.kind != "line":
        step = "post" if line.kind == "steps" else None
        axes.fill_between(moments, values, step=step, color=colour, alpha=0.25, linewidth=0)  # type: ignore[arg-type]
        return
    axes.plot(moments, values, color=colour)
    lone = [at for at in range(len(values)) if _lone(line.values, at)]
    axes.plot([moments[at] for at in lone], [values[at] for at in lone], ".", markersize=3, color=colour)


def _lone(values: Values, at: int) -> bool:
    beside = [*values[max(at - 1, 0) : at], *values[at + 1 : at + 2]]
    return values[at] is not None and all(value is None for value in beside)


def _positive(values: Values) -> list[float | None]:
    """What took no time that the clock could see is shown at the lower end."""
    return [None if value is None else max(value, 0.01) for value in values]


def _themed(drawn: str) -> str:
    """The element alone, in the page's colours and letters, without what the page says or what would be there twice."""
    element = drawn[drawn.index("<svg") :]
    for needless in NEEDLESS:
        element = needless.sub("", element)
    for drawn_in, meant in COLOURS.items():
        element = element.replace(drawn_in, meant)
    element = re.sub(r"(\.\d\d)\d+", r"\1", element)  # a hundredth of a pixel is enough
    element = re.sub(r"\s+", " ", element).replace("> <", "><").strip()
    return element.replace("<svg", '<svg aria-hidden="true"', 1)
