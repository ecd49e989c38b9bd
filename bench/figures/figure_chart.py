"""A sitting as a picture: for each load a bar for each broker, of its rate, on one logarithmic axis."""

from __future__ import annotations

import io
import re

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from bench.figures.measured_loads import LOADS
from bench.figures.sittings import OURS, Sitting

COLOURS = ("#2f6f4f", "#c7742e", "#8a93a3", "#5b79b5")
STYLE = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "leveret", "axes.spines.top": False}
INCHES_OF_LOAD, INCHES_WIDE = 0.42, 7.2
FONT = "font-family: system-ui, sans-serif;"


def drawn(sitting: Sitting) -> str:
    """Return the picture as SVG: messages per second of every broker, longer is better; the same for the same data."""
    loads = [name for name in LOADS if name in sitting.loads]
    names = [broker.name for broker in sitting.brokers]
    with mpl.rc_context(STYLE):
        figure = Figure((INCHES_WIDE, 1.2 + INCHES_OF_LOAD * len(loads)), layout="constrained")
        axes = figure.add_subplot()
        height = 0.8 / len(names)
        for place, name in enumerate(names):
            at = [row + (place - (len(names) - 1) / 2) * height for row in range(len(loads))]
            rates = [sitting.median(load, name, "rate") or 0.0 for load in loads]
            bars = axes.barh(at, rates, height * 0.92, label=name, color=COLOURS[place % len(COLOURS)])
            axes.bar_label(bars, [f"{rate:,.0f}" if rate else "" for rate in rates], padding=2, fontsize=6)
        axes.set_yticks(range(len(loads)), [LOADS[load].title for load in loads])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{rate:,.0f}"))
        axes.set_xlabel(f"messages per second, {sitting.date}, {sitting.machine.processors} processors")
        axes.spines["right"].set_visible(False)
        figure.legend(loc="outside upper center", ncols=len(names), frameon=False)
        written = io.StringIO()
        FigureCanvasSVG(figure).print_svg(written, metadata={"Date": None, "Creator": OURS, "Title": _title(sitting)})
    lines = (line.rstrip() for line in re.sub(r"font-family:[^;\"]*;?", FONT, written.getvalue()).splitlines())
    return "\n".join(lines) + "\n"


def _title(sitting: Sitting) -> str:
    return " and ".join(broker.name for broker in sitting.brokers)
