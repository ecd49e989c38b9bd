"""Figures that sentences of README and docs state: "a fifth of a second", "0.58 to 0.87 of these rates".

A claim is a pattern with one group, the words that state the figure; `figure_page` puts in those of today.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from bench.clients.health_check_costs import CHECKS
from bench.clients.health_check_costs import ROW as CHECK
from bench.figures.core_parts import COMPARED
from bench.figures.core_parts import ROW as CORE_PART
from bench.figures.measured_loads import LOADS
from bench.figures.program_sizes import INSTALLED, SINGLE
from bench.figures.row_figures import EMPTY_START, Rows

PARTS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 6: "sixth", 7: "seventh", 8: "eighth", 9: "ninth"}
PARTS |= {10: "tenth", 15: "fifteenth", 20: "twentieth", 30: "thirtieth", 40: "fortieth", 50: "fiftieth"}
PARTS |= {60: "sixtieth", 80: "eightieth", 100: "hundredth"}
LATENCY = "lone"
"""The load of the cores whose figure is no rate."""


class Claim(NamedTuple):
    """A pattern for sentences, and the words in its group."""

    pattern: re.Pattern[str]
    words: Callable[[Rows], str]


def part(value: float) -> str:
    """Return the nearest of the usual parts of one: `a fifth`."""
    nearest = min(PARTS, key=lambda number: abs(number * value - 1))
    return f"{'an' if PARTS[nearest].startswith('e') else 'a'} {PARTS[nearest]}"


def _start(rows: Rows) -> str:
    return part(rows[EMPTY_START].figures["median_s"])


def _pure_rates(rows: Rows) -> str:
    titles = (LOADS[load].title for load in COMPARED if load != LATENCY)
    parts = sorted(rows[CORE_PART.format(title)].figures["part_of_rate"] for title in titles)
    return f"{parts[0]:.2f} to {parts[-1]:.2f}"


def _milliseconds(rows: Rows, check: int) -> float:
    """Return CPU time of a check, and of the broker for it."""
    figures = rows[CHECK.format(CHECKS[check].title)].figures
    return float(figures["cpu_ms"] + figures["broker_cpu_ms"])


def _image_check(rows: Rows) -> str:
    return part(_milliseconds(rows, 0) / _milliseconds(rows, -1))


def _ping(rows: Rows) -> str:
    return f"{_milliseconds(rows, -1) / 1000:.1f} s"


def _ping_each_second(rows: Rows) -> str:
    return part(_milliseconds(rows, -1) / 1000)


def _megabytes(row: str, figure: str) -> Callable[[Rows], str]:
    return lambda rows: f"{rows[row].figures[figure]:.0f} MB"


CLAIMS = (
    Claim(re.compile(r"ready in (an? \w+)\sof\sa\ssecond"), _start),
    Claim(re.compile(r"at (\d\.\d+ to \d\.\d+)\sof\sthese\srates"), _pure_rates),
    Claim(re.compile(r"costs (an? \w+)\sof\s`rabbitmq-diagnostics"), _image_check),
    Claim(re.compile(r"ping(?:`|\]}`), (\d\.\d s)\sof\sa\score"), _ping),
    Claim(re.compile(r"the last one takes (an? \w+)\sof\sa\score"), _ping_each_second),
    Claim(re.compile(r"\((\d+\sMB)\swith\sits\sdependencies"), _megabytes(INSTALLED, "mb")),
    Claim(re.compile(r"is\s(\d+\sMB)\spacked"), _megabytes(SINGLE, "packed_mb")),
    Claim(re.compile(r"packed,\s(\d+\sMB)\sunpacked"), _megabytes(SINGLE, "unpacked_mb")),
)


def reworded(text: str, rows: Rows) -> str:
    """Return a page's text with the words of today."""
    for claim in CLAIMS:
        words = claim.words(rows)
        text = claim.pattern.sub(lambda found, words=words: found[0].replace(found[1], words), text)  # type: ignore[misc]
    return text


def without_claims(text: str) -> str:
    """Return a page's text without the words that are made."""
    for claim in CLAIMS:
        text = claim.pattern.sub(lambda found: found[0].replace(found[1], ""), text)
    return text
