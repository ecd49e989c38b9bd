"""Tables of command lines, read and compared; see the package's docstring."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

WORD = re.compile(r'"[^"]*"(?=\s|$)|\S+')


class Ending(NamedTuple):
    """A command's output, line by line, and its exit code."""

    code: int
    out: list[str]
    err: list[str]


BASE, LEVERET = "3.10", "leveret"
BLOCK = re.compile(r"(leveret 4\.3|leveret|4\.3)(?: -> (\d+))?")
SECTION = re.compile(r"== (?P<title>.*?)(?: \[(?P<only>[\d.]+)\])?")


class Command(NamedTuple):
    """A command line, and its endings: in 3.10, and by the names of the blocks that differ."""

    number: int
    words: list[str]
    endings: dict[str, Ending]

    def ending(self, series: str, *, reference: bool) -> Ending:
        """Return how it ends in RabbitMQ or in Leveret, as a series."""
        own = (series,) if reference else (f"{LEVERET} {series}", *([series] if series != BASE else []), LEVERET)
        return next((self.endings[name] for name in own if name in self.endings), self.endings[BASE])


class Section(NamedTuple):
    """Commands that build on one another; `only` names the series that they are for, if it is one."""

    title: str
    only: str | None
    commands: list[Command]


Run = Callable[[list[str]], Ending]


def sections(table: str) -> list[Section]:
    """The sections of a table."""
    found: list[Section] = []
    for number, line in enumerate(table.splitlines(), 1):
        section, block = SECTION.fullmatch(line), BLOCK.fullmatch(line)
        if section:
            found.append(Section(section["title"], section["only"], []))
        elif line.startswith("$ "):
            text, _, code = line[2:].partition(" -> ")
            lines = Ending(int(code or 0), [], [])
            found[-1].commands.append(Command(number, WORD.findall(text), {BASE: lines}))
        elif block:
            lines = Ending(int(block[2] or 0), [], [])
            found[-1].commands[-1].endings[block[1]] = lines
        elif line.startswith(("|", "!")):
            text = line[2:].replace("\\t", "\t").replace("\\e", "\x1b")
            (lines.out if line[0] == "|" else lines.err).append(text)
        else:
            assert not line or line.startswith("#"), f"line {number} is no command: {line}"
    return found


def differences(
    commands: list[Command], run: Run, fill: Callable[[str], str], series: str, *, reference: bool
) -> list[str]:
    """Return differences between the commands' output and the table."""
    found = []
    for command in commands:
        wanted = command.ending(series, reference=reference)
        ended = run([fill(word.strip('"')) for word in command.words])
        for stream, lines, printed in (("out", wanted.out, ended.out), ("err", wanted.err, ended.err)):
            if not _alike([fill(line) for line in lines], printed, ordered=not reference):
                found.append(f"line {command.number}: {stream} {printed}")
        if wanted.code != ended.code:
            found.append(f"line {command.number}: exit code {ended.code}")
    return found


def _alike(wanted: list[str], printed: list[str], *, ordered: bool) -> bool:
    """RabbitMQ's lists have no order: `ordered` is False for them."""
    if wanted[-1:] == ["{**}"]:
        wanted, printed = wanted[:-1], printed[: len(wanted) - 1]
    wanted, printed = list(map(_plain, wanted)), list(map(_plain, printed))
    if not ordered:
        return _same_lines([line.lstrip(",") for line in wanted], [line.lstrip(",") for line in printed])
    return len(wanted) == len(printed) and all(map(_matches, wanted, printed))


def _same_lines(wanted: list[str], printed: list[str]) -> bool:
    """Return whether each line of a table has one that was printed, and each of those has its own."""
    left = list(printed)
    for line in sorted(wanted, key=lambda line: line.count("{*}")):
        found = next((other for other in left if _matches(line, other)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _plain(line: str) -> str:
    """Return an object in JSON with its names in order, which they have not got; other lines as they are."""
    comma = "," if line.startswith(",") else ""
    try:
        return comma + json.dumps(json.loads(line.removeprefix(",")), sort_keys=True, separators=(",", ":"))
    except ValueError:
        return line


def _matches(wanted: str, printed: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted.split("{*}"))), printed) is not None
