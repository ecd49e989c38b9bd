"""Figures of README, docs and RESULTS.md, written from the data files between two comments.

A page has `<!-- figures: NAME -->` before them and `<!-- end of figures -->` after them; `BLOCKS` has the names.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figures.figures_in_words import reworded
from bench.figures.measured_loads import LOADS
from bench.figures.row_figures import Rows
from bench.figures.row_tables import health_checks, origins, sizes
from bench.figures.sittings import OURS, Sitting
from bench.figures.stated_figures import read as read_noted
from bench.figures.stated_figures import table as noted_table
from harness.project import ROOT

PAGES = (
    ROOT / "README.md",
    ROOT / "bench" / "RESULTS.md",
    *sorted(page for folder in ("docs", "docs/operations") for page in (ROOT / folder).glob("*.md")),
)
MADE_WHOLE = ROOT / "docs" / "figures.md"
BLOCK = re.compile(r"(?<=<!-- figures: )([a-z ]+)( -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)


class Shown(NamedTuple):
    """A row of a page: the load, the figure of it that is shown, and what limits it on one machine."""

    load: str
    figure: str = "rate"
    limit: str = ""


BESIDE_OTHERS = (
    Shown("window-1000"),
    Shown("queues-16"),
    Shown("lone", "p50_ms"),
    Shown("pika"),
    Shown("transient"),
    Shown("fan-out"),
    Shown("mebibyte"),
    Shown("publish"),
    Shown("drain"),
)
ONE_MACHINE = (
    Shown("window-1000", limit="one core: the event loop"),
    Shown("queues-16", limit="commits: each is one sync"),
    Shown("lone", limit="a sync of the disk, for each publisher"),
    Shown("lone", "p50_ms", limit="the same"),
    Shown("mebibyte", limit="copying, and the disk"),
)


class Known(NamedTuple):
    """Everything that pages show: sittings, the newest last, and single rows by name."""

    sittings: Sequence[Sitting]
    rows: Rows


def filled(known: Known) -> dict[Path, str]:
    """Return each page's text with these figures."""
    return {page: fill(page.read_text(encoding="utf-8"), known) for page in PAGES if page != MADE_WHOLE}


def fill(text: str, known: Known) -> str:
    """Return a page's text with these figures."""
    text = BLOCK.sub(lambda found: found[1] + found[2] + "\n".join([*BLOCKS[found[1]](known), ""]), text)
    return reworded(text, known.rows)


def _beside_others(known: Known) -> Iterator[str]:
    """Yield our figures, and how many times as good they are as those of each other broker in its newest sitting."""
    sittings, newest = known.sittings, known.sittings[-1]
    beside = {broker.name: sitting for sitting in sittings for broker in sitting.brokers if broker.name != OURS}
    older = {name: "" if sitting is newest else f", {sitting.date}" for name, sitting in beside.items()}
    yield _row(["load", OURS, *(f"beside {name}{older[name]}" for name in beside)])
    yield _row(["---"] * (2 + len(beside)))
    for shown in BESIDE_OTHERS:
        ratios = (_times(sitting, shown, name) for name, sitting in beside.items())
        yield _row([_title(shown), _figure(newest, shown), *ratios])
    yield ""
    for sitting in reversed(sittings):
        names = [name for name, found in beside.items() if found is sitting]
        if names:
            yield f"{sitting.date}, Leveret {_version(sitting)}: beside {', '.join(names)}.  "


def _one_machine(known: Known) -> Iterator[str]:
    """Yield our figures with what limits each."""
    newest = known.sittings[-1]
    yield _row(["what", "measured", "what limits it"])
    yield _row(["---"] * 3)
    for shown in ONE_MACHINE:
        yield _row([_title(shown), _figure(newest, shown), shown.limit])
    yield ""
    yield f"{newest.date}, Leveret {_version(newest)}, {newest.machine.processors} processors."


BLOCKS: dict[str, Callable[[Known], Iterator[str]]] = {
    "beside others": _beside_others,
    "one machine": _one_machine,
    "sizes": lambda known: sizes(known.rows),
    "origins of sizes": lambda known: origins(known.rows),
    "health checks": lambda known: health_checks(known.rows),
    "noted by hand": lambda _known: noted_table(read_noted()),
}


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _title(shown: Shown) -> str:
    title = LOADS[shown.load].title
    return title if shown.figure == "rate" else f"{title}, median"


def _version(sitting: Sitting) -> str:
    return next(broker.version for broker in sitting.brokers if broker.name == OURS)


def _figure(sitting: Sitting, shown: Shown) -> str:
    """Return our median: a rate to three digits, or milliseconds."""
    value = sitting.median(shown.load, OURS, shown.figure)
    if value is None:
        return ""
    return f"{float(f'{value:.3g}'):,.0f}/s" if shown.figure == "rate" else f"{value:.2f} ms"


def _times(sitting: Sitting, shown: Shown, broker: str) -> str:
    """Return how many times as good ours is: the median of the rounds, as in docs/figures.md."""
    ratios = sitting.ratios(shown.load, broker, shown.figure)
    return two_digits(statistics.median(ratios)) if ratios else ""


def two_digits(ratio: float) -> str:
    """Return a ratio with two digits, or more above a hundred: `0.76`, `4.0`, `13`."""
    return f"{ratio:.2f}" if ratio < 0.995 else f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"
