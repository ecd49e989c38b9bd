"""Figures in sentences: each comes from a row, is noted with its date, or is a bound that a setting or a test holds.

`noted_figures.json` has measured ones that no row measures, with the words that state them; bench/RESULTS.md shows
them. On pages of `CHECKED` every figure has to be known, so that one that was changed by hand is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from harness.project import ROOT

FILE = Path(__file__).parent / "noted_figures.json"
CHECKED = {
    "README.md": ("Messages of 1 KiB",),
    "docs/README.md": ("(five minutes)",),
    "docs/backup.md": (),
    "docs/ci.md": (),
    "docs/coming-from-rabbitmq.md": ("a message may die 64 times", "4 MiB of direct replies"),
    "docs/compatibility.md": ("socket to 103 bytes",),
    "docs/compose.md": (),
    "docs/frameworks.md": ("(1,800 s, as in RabbitMQ)",),
    "docs/metrics.md": (),
    "docs/moving.md": ("come twice",),
    "docs/outgrowing.md": ("Messages of 1 KiB", "above 10 ms for", "below half of a core", "Above 80 %"),
    "docs/pipeline.md": ("in five minutes",),
    "docs/releasing.md": (),
    "docs/services.md": ("five seconds at most",),
    "docs/testing-applications.md": (),
    "docs/tour.md": (),
    "docs/operations/container.md": ("before: after 10 s", "then every 10 s", "5 seconds at most"),
    "docs/operations/single-directory.md": ("about 5 minutes",),
    "docs/operations/starting.md": (),
    "docs/operations/tls.md": (),
    "docs/operations/upgrade.md": (),
    "docs/operations/users.md": ("without a check for 1 s", "up to 60 s"),
}
"""Words of each page that state bounds: defaults of settings, counts of the reader, formats."""

_NUMBER = (
    r"(?:\d[\d,.]*|half|an? (?:half|third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|\w+teenth|\w+tieth|hundredth)|"
    r"two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|hundred)"
)
_UNIT = (
    r"(?:[nmuµ]?s|(?:milli|micro)?seconds?|minutes?|hours?|[kKMG]i?B|bytes?|%|percent|times|fold|"
    r"of\sa\s(?:second|core|millisecond)|of\s(?:its|these|their|the)\s(?:rates?|time|cost|size)|tests|ones|on\seach)"
)
FIGURE = re.compile(
    rf"(?<![\w.`/:-])(?:{_NUMBER}(?:\sto\s{_NUMBER})?[\s-]?{_UNIT}(?!\w)|twice(?!\w)|exposure\s[\d.]+)", re.IGNORECASE
)


class NotedFigure(NamedTuple):
    """A measured figure: the words of a page that state it, the date and the machine."""

    page: str
    words: str
    date: str
    machine: str


def read(file: Path = FILE) -> list[NotedFigure]:
    """Return all noted figures, in the order of the file."""
    return [NotedFigure(**found) for found in msgspec.json.decode(file.read_bytes())]


def table(noted: Sequence[NotedFigure]) -> Iterator[str]:
    """Yield the table of bench/RESULTS.md."""
    yield "| page | figure | measured | machine |"
    yield "| --- | --- | --- | --- |"
    for figure in noted:
        name = figure.page.removeprefix("docs/")
        words = figure.words.replace("|", "\\|")
        yield f"| [{name}](../{figure.page}) | {words} | {figure.date} | {figure.machine} |"


def changed(noted: Sequence[NotedFigure]) -> list[str]:
    """Return the words that do not stand on their page any more."""
    return [figure.words for figure in noted if figure.words not in plain((ROOT / figure.page).read_text("utf-8"))]


def plain(text: str) -> str:
    """Return a page's text without its line breaks."""
    return " ".join(text.split())


def unknown(text: str, known: Sequence[str]) -> list[str]:
    """Return the figures of a text, without blocks and code, that lie in none of the known words."""
    text = plain(re.sub(r"```.*?```", " ", text, flags=re.DOTALL))
    for words in sorted(known, key=len, reverse=True):
        text = text.replace(words, " ")
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", "`", text)
    return [found[0] for found in FIGURE.finditer(text)]
