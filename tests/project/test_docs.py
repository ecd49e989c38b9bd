"""The documents are true where a machine can tell: the example runs, links lead somewhere, what is named exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.figures import figure_page, figures_in_pages
from broker import __version__
from broker.cli.catalogue import TOP as VERBS
from broker.config import Config
from harness.brokers.broker_process import BrokerProcess
from harness.project import ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench").glob("*.md"),
        *(ROOT / "examples").glob("*.md"),
    ]
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
PACKAGES = (
    "leveret|broker|storage|migrations|pipeline|leveret_spark|leveret_events|harness|bench|tests|tools|spec|docs|deploy"
    "|examples"
)
FILE = re.compile(rf"`((?:{PACKAGES})/[\w./-]+)`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
RELATIVE_CLAUSE = re.compile(
    r"(?:\A|(?<=[.:;] )|(?<=[.:;]\n)|(?<=[.:;]\n  )|(?<=\| )|(?<=\n\n)|(?<=\n- )|(?<=\n[0-9]\. ))"
    r"(?:What|Whoever|Whatever|That which|Of what)\b[^.?|]*(?![^.?|])[^?]"
)
"""A sentence, cell or item of a list that begins with one; questions do not count."""
SO_MANY = re.compile(r"\b[Ss]o (?:many|much|long) (?!as\b)")
RARE = re.compile(r"\b(?:[Aa]new|[Ww]hoever)\b")
"""Words for which a reader has others: again, who."""
DECISION_LINES_MAX = 45
LINE_LENGTH_MAX = 150
FIRST_PAGE_LENGTH_MAX = 100
RATE = re.compile(r"\d/s\b")
FILE_ENDINGS = (".end", ".py", ".sqlite")
SECONDS = 30


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of headings in links, as GitHub makes them."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page)))
    return {heading.replace(" ", "-") for heading in plain}


def test_the_example_of_the_readme_is_short_and_runs(fresh_broker: BrokerProcess) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    assert "5672" in example, "the example connects to the port that the broker listens on unasked"
    assert len([line for line in example.splitlines() if line and not line.startswith("import ")]) <= 10
    program = example.replace("5672", str(fresh_broker.address[1]))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "b'hello'\n", "")


@pytest.mark.slow
def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    (program,) = [block for block in blocks(ROOT / "README.md", "py") if "def test_" in block]
    (tmp_path / "test_orders.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_leveret.plugin", "test_orders.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, "1 passed" in run.stdout) == (0, True), run.stdout


def on_every_page(wrong: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """Return problems by page."""
    found = {shown(page): list(wrong(page)) for page in PAGES}
    return {page: names for page, names in found.items() if names}


def broken_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(prose(page)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def test_every_link_leads_somewhere() -> None:
    assert on_every_page(broken_links) == {}


def test_every_file_that_is_named_exists() -> None:
    def missing(page: Path) -> list[str]:
        return [name for name in FILE.findall(page.read_text(encoding="utf-8")) if not (ROOT / name).exists()]

    assert on_every_page(missing) == {}


def test_lines_of_prose_are_short() -> None:
    """Rows of tables are longer: they cannot be broken."""

    def long_lines(page: Path) -> list[str]:
        lines = prose(page).splitlines()
        return [line for line in lines if len(line) > LINE_LENGTH_MAX and not line.lstrip().startswith("|")]

    assert on_every_page(long_lines) == {}


def test_the_first_page_is_read_in_a_terminal() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > FIRST_PAGE_LENGTH_MAX and not line.startswith("|")] == []


def test_the_first_page_states_version_and_requirements_as_they_are() -> None:
    text, project = (ROOT / "README.md").read_text(encoding="utf-8"), PROJECT["project"]
    assert re.findall(r"^Version (\S+),", text, re.MULTILINE) == [__version__]
    oldest = project["requires-python"].removeprefix(">=")
    assert set(re.findall(r"Python (\d\.\d+) or later", text)) == {oldest}
    assert project["license"] == "Apache-2.0"
    assert "[Apache 2.0](LICENSE)" in text


def test_rates_stand_where_they_were_measured() -> None:
    """README and docs show rates of the data file alone, which `python -m bench.figures.figure_page` writes there."""
    pages = [page for page in PAGES if page.parts[len(ROOT.parts)] != "bench" and "decisions" not in page.parts]
    pages.remove(figure_page.PAGE)
    texts = {shown(page): figures_in_pages.BLOCK.sub("", page.read_text(encoding="utf-8")) for page in pages}
    found = {page: [line for line in text.splitlines() if RATE.search(line)] for page, text in texts.items()}
    assert {page: lines for page, lines in found.items() if lines} == {}


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(index))}
    pages = {page for page in PAGES if page.parts[len(ROOT.parts)] == "docs" and "decisions" not in page.parts}
    assert {shown(page) for page in pages - listed} == {"docs/README.md"}


TWO_CLICKS = {
    "CI": "docs/ci.md",
    "pytest": "docs/testing-applications.md#pytest",
    "Node": "docs/testing-applications.md#node",
    "compose": "docs/compose.md",
    "moving": "docs/moving.md",
    "backup": "docs/backup.md#make",
    "restore": "docs/backup.md#restore",
    "TLS": "docs/operations/tls.md",
    "users": "docs/operations/users.md",
    "metrics": "docs/metrics.md",
    "upgrade": "docs/operations/upgrade.md",
    "what is lost at a crash": "docs/durability.md",
    "instead of Toxiproxy": "docs/testing-with-leveret.md#instead-of-toxiproxy",
    "Celery": "docs/frameworks.md#celery-with-quorum-queues-and-native-delayed-delivery",
    "Spring": "docs/frameworks.md#spring",
    "Testcontainers": "docs/ci.md#testcontainers",
}
"""Places by the subject that a reader of README looks for."""


def within_clicks(page: Path, clicks: int) -> set[str]:
    """Return pages at most `clicks` links away, and their headings, which an open page shows."""
    reached, seen = {page}, {page}
    for _ in range(clicks):
        links = {((at.parent / link.partition("#")[0]).resolve()) for at in reached for link in LINK.findall(prose(at))}
        reached = {target for target in links if target.suffix == ".md" and target.is_file()} - seen
        seen |= reached
    return {shown(at) for at in seen} | {f"{shown(at)}#{anchor}" for at in seen for anchor in anchors(at)}


def test_what_readers_look_for_is_two_clicks_from_the_readme() -> None:
    near = within_clicks(ROOT / "README.md", 2)
    assert {subject: place for subject, place in TWO_CLICKS.items() if place not in near} == {}
    assert near > within_clicks(ROOT / "README.md", 1), "the second click leads further"


def test_the_index_has_one_row_for_a_page_that_readers_look_for() -> None:
    """One question leads to it; the others are rows of README or links in a page."""
    rows = re.findall(r"^\| [^|]+ \| (.+) \|$", (ROOT / "docs" / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    first = [LINK.findall(row)[0] for row in rows if LINK.search(row)]
    pages = {place.partition("#")[0].removeprefix("docs/") for place in TWO_CLICKS.values()}
    assert {page: first.count(page) for page in pages if first.count(page) != 1} == {}


def mannered(text: str) -> list[str]:
    """Sentences that begin with a relative clause, limits without a number, rare words."""
    text = HEADING.sub("", text)
    return [found.group() for pattern in (RELATIVE_CLAUSE, SO_MANY, RARE) for found in pattern.finditer(text)]


def test_a_sentence_names_its_subject() -> None:
    """A reader who skims finds a noun at the beginning, and "at most N" for a limit."""
    assert on_every_page(lambda page: mannered(prose(page))) == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It stops. What is left waits.", 1),
        ("| full disk | What does not fit waits | |", 1),
        ("- Whoever waits\n  gets so many messages at once.", 3),
        ("It starts anew.", 1),
        ("| What does this log line mean? | [logs.md](logs.md) |", 0),
        ("It waits as long as it says what it does. So long as it is up, it answers.", 0),
    ],
)
def test_a_sentence_without_a_subject_is_noticed(text: str, found: int) -> None:
    assert len(mannered(f"\n{text}\n")) == found


def sections() -> list[Any]:
    """The sections of the settings whose fields are known; those of shovels are names."""
    return [section for section in msgspec.structs.fields(Config) if isinstance(section.type, type)]


def settings() -> set[str]:
    """Every setting as `section.name`, and the sections."""
    found = set()
    for section in sections():
        found |= {f"{section.name}.{field.name}" for field in msgspec.structs.fields(section.type)}
    return found


def named_settings(page: Path) -> Iterator[str]:
    names = "|".join(section.name for section in sections())
    yield from re.findall(rf"`((?:{names})\.[a-z_]+)`", prose(page))


def test_every_setting_that_is_named_exists() -> None:
    known = settings()

    def unknown(page: Path) -> list[str]:
        return [name for name in named_settings(page) if name not in known and not name.endswith(FILE_ENDINGS)]

    assert any(name in known for page in PAGES for name in named_settings(page))
    assert on_every_page(unknown) == {}


def named_after(command: str, page: Path) -> list[str]:
    """The word after a command, in prose and in blocks for a shell."""
    in_blocks = "\n".join(blocks(page, "sh"))
    return re.findall(rf"`{command} ([a-z-]+)", prose(page)) + re.findall(
        rf"^{command} ([a-z-]+)", in_blocks, re.MULTILINE
    )


def test_every_command_that_is_named_exists() -> None:
    assert on_every_page(lambda page: set(named_after("leveret", page)) - {*VERBS, "ready"}) == {}


def test_every_make_target_that_is_named_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert on_every_page(lambda page: set(named_after("make", page)) - {*targets}) == {}


INSTALL = re.compile(r"pip3? install ((?:--[\w-]+ )*)('[^'\n]+'|[^\s`#&|']+)")
PUBLISHING = ROOT / "docs" / "releasing.md"
EXTRAS = PROJECT["project"]["optional-dependencies"]


def installed_wrongly(text: str) -> Iterator[str]:
    """Yield targets of `pip install` that are ours and nowhere: no index has them, nor a checkout."""
    for _options, quoted in INSTALL.findall(text):
        target, _, extras = quoted.strip("'").rstrip("]").partition("[")
        ours = target == "." or target.startswith(("./", "leveret"))
        places = [ROOT] if target in (".", "./leveret") else [ROOT / target]
        known = all((place / "pyproject.toml").is_file() for place in places) and not target.startswith("leveret")
        if ours and not (known and set(filter(None, extras.split(","))) <= {*EXTRAS}):
            yield quoted


def test_every_command_that_installs_leveret_installs_a_checkout() -> None:
    """Nothing is published: the name alone is an error, or a package of whoever registers it."""
    told = {page: page.read_text(encoding="utf-8") for page in PAGES if page != PUBLISHING}
    told |= {
        file: file.read_text(encoding="utf-8") for name in ("broker", "leveret") for file in (ROOT / name).rglob("*.py")
    }
    found = {shown(place): list(installed_wrongly(text)) for place, text in told.items()}
    assert {place: commands for place, commands in found.items() if commands} == {}


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        ("pip install 'leveret[pytest]'", True),
        ("pip install --quiet leveret", True),
        ("pip install './leveret[pytests]'", True),
        ("pip install './leveret[pytest]'", False),
        ("pip install ./leveret_spark", False),
        ("pip install pika", False),
    ],
)
def test_a_command_that_installs_what_is_not_there_is_noticed(command: str, wrong: bool) -> None:
    assert bool([*installed_wrongly(command)]) == wrong


@pytest.mark.slow
def test_the_command_for_tests_of_applications_works_beside_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "leveret").symlink_to(ROOT)
    (command, *_more) = (
        line for line in blocks(ROOT / "docs/testing-applications.md", "sh")[0].splitlines() if "pip" in line
    )
    words = shlex.split(command, comments=True)
    assert words == ["pip", "install", "./leveret[pytest]"]
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "--no-build-isolation"]
    run = subprocess.run([*pip, *words[2:]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "Would install leveret-" in run.stdout


def test_a_decision_says_why_what_and_at_what_cost() -> None:
    for page in DECISIONS:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        parts = [text.find(f"**{part}.**") for part in ("Context", "Choice", "Cost")]
        assert parts[0] >= 0, page.name
        assert parts == sorted(parts), page.name


def test_a_decision_is_one_page() -> None:
    """Long tables of figures are in docs/decisions/measurements."""
    lines = {page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in DECISIONS}
    assert {name: count for name, count in lines.items() if count > DECISION_LINES_MAX} == {}


def test_decisions_have_numbers_of_their_own_and_are_all_listed() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert sorted(set(numbers)) == numbers
    listed = LINK.findall((ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert sorted(link for link in listed if link[0].isdigit()) == [page.name for page in DECISIONS]
