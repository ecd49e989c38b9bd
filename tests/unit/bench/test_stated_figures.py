"""Figures that pages state: an older or another one is noticed, of every kind, wherever it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from bench.figures import sittings, stated_figures
from bench.figures.figures_in_pages import BLOCK, PAGES, Known, fill
from bench.figures.figures_in_words import without_claims
from bench.figures.row_figures import read as read_rows
from harness.attacks.attack_catalogue import ATTACKS
from harness.project import ROOT

DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
RESULTS = ROOT / "bench" / "RESULTS.md"


@pytest.fixture(scope="module")
def known() -> Known:
    return Known(sittings.read(), read_rows())


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def noticed(page: str, text: str, known: Known) -> Iterator[str]:
    """Yield what is wrong with a page: figures other than those of the data, unknown ones, noted ones that are gone."""
    if fill(text, known) != text:
        yield "other figures than those of the data"
    noted = [figure.words for figure in stated_figures.read() if figure.page == page]
    yield from (words for words in noted if words not in stated_figures.plain(text))
    if page in stated_figures.CHECKED:
        by_hand = without_claims(BLOCK.sub("", text))
        yield from stated_figures.unknown(by_hand, [*noted, *stated_figures.CHECKED[page]])


def test_every_figure_of_a_page_is_known(known: Known) -> None:
    pages = [page.relative_to(ROOT).as_posix() for page in PAGES]
    found = {page: [*noticed(page, text_of(page), known)] for page in pages}
    assert {page: problems for page, problems in found.items() if problems} == {}
    assert {*stated_figures.CHECKED} | {figure.page for figure in stated_figures.read()} <= {*pages}


def test_words_that_excuse_a_figure_stand_on_their_page() -> None:
    stale = [
        (page, words)
        for page, excused in stated_figures.CHECKED.items()
        for words in excused
        if words not in stated_figures.plain(text_of(page)) or not stated_figures.unknown(words, [])
    ]
    assert stale == []


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        ("README.md", r"ready in a \w+ of", "ready in a tenth of"),
        ("README.md", r"at 0\.\d+ to 0\.\d+ of these", "at 0.90 to 1.10 of these"),
        ("README.md", r"\| \d+ \|$", "| 99 |"),
        ("README.md", r"\d+,000/s", "999,000/s"),
        ("README.md", r"0\.\d\d ms", "0.05 ms"),
        ("README.md", r"\d+ MB with its", "9 MB with its"),
        ("README.md", r"^## The promise$", "## The promise\n\nIt is 18 times as fast as a rabbit."),
        ("docs/compose.md", r"costs a \w+ of", "costs a ninth of"),
        ("docs/ci.md", r"\d+\.\d ms", "0.7 ms"),
        ("docs/ci.md", r"^# In CI$", "# In CI\n\nIt uses 3 % of a core."),
        ("docs/outgrowing.md", r"ready in \d\.\d+ s", "ready in 0.01 s"),
        ("docs/outgrowing.md", r"\d+\.\d KiB each", "1.0 KiB each"),
        ("docs/operations/single-directory.md", r"\d+ MB unpacked", "5 MB unpacked"),
        ("docs/compatibility.md", r"[\d,]+ fast ones", "9,999 fast ones"),
        ("docs/operations/limits.md", r"20 to 35 ms", "2 to 3 ms"),
        ("docs/management.md", r"11 to 13 ms", "1 to 3 ms"),
        ("docs/services.md", r"exposure 1\.\d", "exposure 0.1"),
        ("bench/RESULTS.md", r"83 MiB", "38 MiB"),
    ],
)
def test_a_figure_that_was_changed_by_hand_is_noticed(known: Known, page: str, old: str, new: str) -> None:
    before = text_of(page)
    after = re.sub(old, new, before, count=1, flags=re.MULTILINE)
    assert after != before, "the page has no such figure"
    assert [*noticed(page, after, known)] != []


def test_every_section_of_the_results_has_a_date() -> None:
    """The date of a section counts for its parts."""
    sections = re.split(r"^## ", RESULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [section.splitlines()[0] for section in sections if not DATE.search(section)] == []


def test_pages_count_the_attacks_as_they_are() -> None:
    told = {page: {*re.findall(r"(\d+) attacks", text_of(page))} for page in ("docs/testing.md", "bench/README.md")}
    assert all(counts == {str(len(ATTACKS))} for counts in told.values()), told
