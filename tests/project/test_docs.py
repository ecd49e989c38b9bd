"""The documents are true where a machine can tell: the example runs, links lead somewhere, what is named exists."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from broker.cli.main import VERBS
from broker.config import Config
from harness.brokers.broker_process import BrokerProcess
from harness.project import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
PACKAGES = "broker|storage|migrations|pipeline|leveret_spark|harness|bench|tests|tools|spec|docs"
FILE = re.compile(rf"`((?:{PACKAGES})/[\w./-]+)`")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FILE_ENDINGS = (".py", ".sqlite")
SECONDS = 30


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text(encoding="utf-8")) if found == language]


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """What a heading is called in a link, as GitHub makes it."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(prose(page)))
    return {heading.replace(" ", "-") for heading in plain}


def test_the_example_of_the_readme_runs(fresh_broker: BrokerProcess) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    assert "5672" in example, "the example connects to the port that the broker listens on unasked"
    program = example.replace("5672", str(fresh_broker.address[1]))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "b'hello'\n", "")


def test_the_example_of_the_readme_is_short() -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    assert len([line for line in example.splitlines() if line and not line.startswith("import ")]) <= 10


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = FILE.findall(page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def settings() -> set[str]:
    """Every setting as `section.name`, and the sections."""
    found = set()
    for section in msgspec.structs.fields(Config):
        found |= {f"{section.name}.{field.name}" for field in msgspec.structs.fields(section.type)}
    return found


def named_settings(page: Path) -> Iterator[str]:
    sections = "|".join(section.name for section in msgspec.structs.fields(Config))
    yield from re.findall(rf"`((?:{sections})\.[a-z_]+)`", prose(page))


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_setting_that_is_named_exists(page: Path) -> None:
    known = settings()
    assert [name for name in named_settings(page) if name not in known and not name.endswith(FILE_ENDINGS)] == []


def test_settings_are_named_at_all() -> None:
    assert {name for page in PAGES for name in named_settings(page)}


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_command_that_is_named_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    named = [match[1] for line in lines if (match := re.match(r"leveret ([a-z-]+)", line))]
    named += re.findall(r"`leveret ([a-z-]+)", text)
    assert [verb for verb in named if verb not in {*VERBS, "ready"}] == []


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`make ([a-z-]+)`", text)
    named += re.findall(r"^make ([a-z-]+)", "\n".join(blocks(page, "sh")), re.MULTILINE)
    assert [target for target in named if target not in targets] == []


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_says_why_what_and_at_what_cost(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    number = int(page.name[:4])
    assert text.startswith(f"# {number}. ")
    parts = [text.find(f"**{part}.**") for part in ("Context", "Choice", "Cost")]
    assert -1 not in parts
    assert parts == sorted(parts)


def test_decisions_have_numbers_of_their_own() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert sorted(set(numbers)) == numbers


def test_the_list_of_decisions_is_complete() -> None:
    listed = LINK.findall((ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8"))
    assert sorted(link for link in listed if link[0].isdigit()) == [page.name for page in DECISIONS]
