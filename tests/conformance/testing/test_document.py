"""docs/testing-with-leveret.md says what there is: its requests, its table of faults, its words for events."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from broker.management.routes.testing_routes import RESOURCES
from broker.testing.event_history import WORDS
from broker.testing.faults.fault_table import FAULTS
from broker.testing.faults.requested_faults import Faults
from broker.testing.testing_requests import REQUESTS
from harness.project import ROOT
from tests.conformance.testing.conftest import Orders

PAGE = (ROOT / "docs" / "testing-with-leveret.md").read_text()
EXAMPLES = [shlex.split(line) for line in PAGE.splitlines() if line.startswith("curl ")]
DEFAULT_METHOD = "GET"


@pytest.mark.parametrize("words", EXAMPLES, ids=" ".join)
def test_a_request_is_one_that_is_understood(words: list[str]) -> None:
    """There is a route for its path and method, and its arguments are JSON with names that the order knows."""
    options = dict(pairwise(words))
    url = urlsplit(next(word for word in words if word.startswith("http:")))
    resource = next(each for each in RESOURCES if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", each.path), url.path))
    assert options.get("-X", DEFAULT_METHOD) in resource.operations
    given = json.loads(options.get("-d", "{}")) | dict(parse_qsl(url.query))
    name = url.path.removeprefix("/api/testing/")
    if (name, options.get("-X")) == ("faults", "POST"):
        Faults().request(given)
    elif name in REQUESTS:
        assert given.keys() <= set(REQUESTS[name].arguments or ())


def test_each_fault_has_its_row() -> None:
    rows = {
        f"| `{name}` | {fault.does} | {fault.to} | {_parameters(name)} | {_scope(name)} | {fault.times or ''} |"
        for name, fault in FAULTS.items()
    }
    assert {row for row in rows if row not in PAGE} == set()


def _parameters(name: str) -> str:
    shown = (
        f"`{key}`: {parameter.meaning}" + ("" if parameter.default is None else f" ({parameter.default})")
        for key, parameter in FAULTS[name].parameters.items()
    )
    return "; ".join(shown)


def _scope(name: str) -> str:
    return ", ".join(f"`{key}`" for key in FAULTS[name].scope)


def test_each_route_and_each_word_is_named() -> None:
    paths = {re.sub(r"/\{\w+\}", "", resource.path).removeprefix("/api/testing").strip("/") for resource in RESOURCES}
    assert {path for path in paths if path.rpartition("/")[2] not in PAGE} == set()
    assert {word for word in WORDS if f"`{word}`" not in PAGE} == set()


LANGUAGES = {
    "js": ("node", "requests.mjs"),
    "java": ("java", "Requests.java"),
    "go": ("go run", "requests.go"),
    "ruby": ("ruby", "requests.rb"),
}
"""Command and file name of each language's programs on the page. .NET needs a project."""


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_of_the_page_runs(order: Orders, tmp_path: Path, language: str) -> None:
    """In the languages that this machine has."""
    command, name = LANGUAGES[language]
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"there is no {command}")
    program = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert program is not None
    (tmp_path / name).write_text(program[1].replace("127.0.0.1:15672", "{}:{}".format(*order.address)))
    order("clock/stop")
    order("clock/set", to="2001-01-01T00:00:00Z")
    said = subprocess.run([*command.split(), name], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "T" in said
    assert order("clock", method="GET")["ahead_seconds"] == pytest.approx(3600, abs=60)
