"""Pictures of the web page in docs/screenshots are those that the program for them takes."""

from __future__ import annotations

from harness.project import ROOT
from tests.page.pictures import FOLDER, LOGIN, SCHEMES, pictures

REPORTS = "report"
"""Pictures of the audit's report."""


def test_pictures_are_there_light_and_dark_and_no_others() -> None:
    names = [LOGIN, *(picture.name for picture in pictures("connection"))]
    files = {file.relative_to(FOLDER).with_suffix("").as_posix() for file in FOLDER.rglob("*.png")}
    assert {name for name in files if not name.startswith(REPORTS)} == {f"{n}-{s}" for n in names for s in SCHEMES}


def test_the_tour_shows_pictures_of_the_program() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    shown = [picture.name for picture in pictures("connection") if f"screenshots/{picture.name}-light.png" in tour]
    assert tour.count("![") == len(shown) >= 6
