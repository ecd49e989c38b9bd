"""The list of promises in docs/durability.md names each planted mistake beside the promise it breaks."""

from __future__ import annotations

from harness.project import ROOT
from tests.planted.planted_catalogue import CATALOGUE


def documented() -> dict[str, set[str]]:
    """The mistakes named in the last column of the promises' table, by promise."""
    text = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8").partition("## The promises by number")[2]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:3] == "| I"]
    return {row[0]: set(filter(None, row[-1].split("; "))) for row in rows}


def test_each_planted_mistake_stands_beside_its_promise() -> None:
    promises = documented()
    planted = {
        promise: {name for name, mistake in CATALOGUE.items() if mistake.promise == promise} for promise in promises
    }
    assert promises == planted


def test_every_promise_has_a_mistake_against_it() -> None:
    assert [promise for promise, names in documented().items() if not names] == []
