"""Figures of README and docs, written from the data file between two comments.

A page has `<!-- figures: NAME -->` before them and `<!-- end of figures -->` after them; `BLOCKS` has the names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figures.measured_loads import LOADS
from bench.figures.sittings import OURS, Sitting
from harness.project import ROOT

PAGES = ROOT / "README.md", ROOT / "docs" / "outgrowing.md"
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


def filled(sittings: Sequence[Sitting]) -> dict[Path, str]:
    """Return each page's text with the figures of these sittings."""
    return {page: fill(page.read_text(encoding="utf-8"), sittings) for page in PAGES}


def fill(text: str, sittings: Sequence[Sitting]) -> str:
    """Return a page's text with the figures of these sittings, of which the last is the newest."""
    return BLOCK.sub(lambda found: found[1] + found[2] + "\n".join([*BLOCKS[found[1]](sittings), ""]), text)


def _beside_others(sittings: Sequence[Sitting]) -> Iterator[str]:
    """Yield our figures, and how many times as good they are as those of each other broker in its newest sitting."""
    newest = sittings[-1]
    beside = {broker.name: sitting for sitting in sittings for broker in sitting.brokers if broker.name != OURS}
    yield _row(["load", OURS, *(f"beside {name}" for name in beside)])
    yield _row(["---"] * (2 + len(beside)))
    for shown in BESIDE_OTHERS:
        ratios = (_times(sitting, shown, name) for name, sitting in beside.items())
        yield _row([_title(shown), _figure(newest, shown), *ratios])
    yield ""
    for sitting in reversed(sittings):
        names = [name for name, found in beside.items() if found is sitting]
        if names:
            yield f"{sitting.date}, Leveret {_version(sitting)}: beside {', '.join(names)}.  "


def _one_machine(sittings: Sequence[Sitting]) -> Iterator[str]:
    """Yield our figures with what limits each."""
    yield _row(["what", "measured", "what limits it"])
    yield _row(["---"] * 3)
    for shown in ONE_MACHINE:
        yield _row([_title(shown), _figure(sittings[-1], shown), shown.limit])
    yield ""
    yield f"{sittings[-1].date}, Leveret {_version(sittings[-1])}, {sittings[-1].machine.processors} processors."


BLOCKS: dict[str, Callable[[Sequence[Sitting]], Iterator[str]]] = {
    "beside others": _beside_others,
    "one machine": _one_machine,
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
    """Return how many times as good our median is: a higher rate, a shorter wait."""
    ours, theirs = (sitting.median(shown.load, name, shown.figure) for name in (OURS, broker))
    if not ours or not theirs:
        return ""
    return f"{ours / theirs if shown.figure == 'rate' else theirs / ours:.2g}"
