"""Tables of command lines, read and compared; see the package's docstring."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

WORD = re.compile(r'"[^"]*"(?=\s|$)|\S+')


class Ending(NamedTuple):
    """A command's output, line by line, and its exit code."""

    code: int
    out: list[str]
    err: list[str]


class Command(NamedTuple):
    """A command line, how it ends in RabbitMQ, and in Leveret."""

    number: int
    words: list[str]
    of_rabbitmq: Ending
    of_leveret: Ending


Run = Callable[[list[str]], Ending]


def sections(table: str) -> dict[str, list[Command]]:
    """The commands of a table by the titles above them, `== title`."""
    found: dict[str, list[Command]] = {}
    title = ""
    for number, line in enumerate(table.splitlines(), 1):
        if line.startswith("== "):
            title = line[3:]
            found[title] = []
        elif line.startswith("$ "):
            text, _, code = line[2:].partition(" -> ")
            ending = Ending(int(code or 0), [], [])
            found[title].append(Command(number, WORD.findall(text), ending, ending))
        elif line.startswith("leveret"):
            ending = Ending(int(line.partition(" -> ")[2] or 0), [], [])
            found[title][-1] = found[title][-1]._replace(of_leveret=ending)
        elif line.startswith(("|", "!")):
            lines = found[title][-1].of_leveret
            text = line[2:].replace("\\t", "\t").replace("\\e", "\x1b")
            (lines.out if line[0] == "|" else lines.err).append(text)
        else:
            assert not line or line.startswith("#"), f"line {number} is no command: {line}"
    return found


def differences(commands: list[Command], run: Run, fill: Callable[[str], str], *, reference: bool) -> list[str]:
    """Return differences between the commands' output and the table."""
    found = []
    for command in commands:
        wanted = command.of_rabbitmq if reference else command.of_leveret
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
    if not ordered:
        wanted, printed = _sorted(wanted), _sorted(printed)
    return len(wanted) == len(printed) and all(map(_matches, wanted, printed))


def _sorted(lines: list[str]) -> list[str]:
    return sorted(line.lstrip(",") for line in lines)


def _matches(wanted: str, printed: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, wanted.split("{*}"))), printed) is not None
