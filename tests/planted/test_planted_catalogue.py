"""The catalogue agrees with the promises in docs/durability.md and with the tests that find each mistake.

Crash states, kills, simulation and models take their mistakes from the catalogue. A test that starts a broker with a
mistake of its choice names it, and is named by the mistake.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partialmethod
from inspect import Parameter
from typing import Any

import pytest

from harness.project import ROOT
from tests.planted.mistake import Process
from tests.planted.planted_catalogue import CATALOGUE, found_by

POSITIONAL, POSITIONAL_ONLY = Parameter.POSITIONAL_OR_KEYWORD, Parameter.POSITIONAL_ONLY
PROMISE = re.compile(r"I\d+")
RUNNERS = (
    *("tests/durability/crash", "tests/durability/exhaustion", "tests/durability/kills", "tests/durability/operators"),
    *("tests/models", "tests/simulation", "tests/planted"),
)
"""Files that take mistakes from the catalogue."""


def documented() -> dict[str, set[str]]:
    """The mistakes listed for each promise in docs/durability.md, by the promise's number."""
    text = (ROOT / "docs" / "durability.md").read_text(encoding="utf-8").partition("## Planted mistakes")[2]
    listed = re.findall(r"^- \*\*(I\d+)\*\*: (.+(?:\n  .+)*)", text, re.MULTILINE)
    return {number: {" ".join(name.split()) for name in names.split(";")} for number, names in listed}


def calls_of(function: Callable[..., Any]) -> Iterator[tuple[list[str], list[str]]]:
    """Arguments by position, and by keyword, of a call with all of them, and of one with as few as can be."""
    parameters = inspect.signature(function).parameters.values()
    for chosen in (parameters, [each for each in parameters if each.default is Parameter.empty]):
        by_position = [each.name for each in chosen if each.kind in (POSITIONAL, POSITIONAL_ONLY)]
        yield by_position, [each.name for each in chosen if each.kind is Parameter.KEYWORD_ONLY]


def takes(mistaken: Any, by_position: list[str], by_keyword: list[str]) -> None:
    """Raise TypeError unless a function can be called in place of another."""
    if isinstance(mistaken, partialmethod):
        by_position = [*by_position[:1], *mistaken.args, *by_position[1:]]
        mistaken = mistaken.func
    inspect.signature(mistaken).bind(*by_position, **dict.fromkeys(by_keyword))


def test_each_mistake_against_a_promise_stands_beside_it() -> None:
    planted: dict[str, set[str]] = {}
    for name, mistake in CATALOGUE.items():
        if PROMISE.fullmatch(mistake.breaks):
            planted.setdefault(mistake.breaks, set()).add(name)
    assert documented() == planted


def test_every_promise_has_a_mistake_against_it_and_every_mistake_a_runner() -> None:
    assert [promise for promise, names in documented().items() if not names] == []
    assert [name for name, mistake in CATALOGUE.items() if not mistake.found_by] == []


@pytest.mark.pure_core("its code is replaced")
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_mistake_replaces_code_that_is_there(name: str) -> None:
    """A renamed function would leave the broker without the mistake, and its runner with nothing to find.

    A function that is called with other arguments would fail, and be found for that.
    """
    replaced = []

    def note(owner: Any, attribute: str, value: Any) -> None:
        assert hasattr(owner, attribute), f"{owner} has no {attribute}"
        if inspect.isfunction(before := getattr(owner, attribute)):
            for arguments in calls_of(before):
                takes(value, *arguments)
        replaced.append(attribute)

    CATALOGUE[name].plant(note)
    assert replaced


def test_a_mistake_that_a_process_shows_is_planted_by_the_test_it_names_and_no_other() -> None:
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "with_mistake" in path.read_text(encoding="utf-8")]
    named = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}
    planting = {
        (name, file)
        for file, text in named.items()
        if not file.startswith(RUNNERS)
        for name in CATALOGUE
        if f'"{name}"' in text
    }
    assert planting == {(name, process.test) for name, process in found_by(Process)}
