"""Verbs as lines of text: name, programs, number of arguments, usage; what it does; its banner.

`c` is rabbitmqctl, `d` rabbitmq-diagnostics, `p` rabbitmq-plugins, `q` rabbitmq-queues, `s` rabbitmq-streams, `u`
rabbitmq-upgrade. `since=` and `until=` name the first and the last series of RabbitMQ that has a verb in this form. In
a banner, {0} is the first argument; {vhost} and {node} are what the command line names. A heading is a section of the
help.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from broker.entities.arguments.personality import PERSONALITIES

TOOLS = {
    "c": "rabbitmqctl",
    "d": "rabbitmq-diagnostics",
    "p": "rabbitmq-plugins",
    "q": "rabbitmq-queues",
    "s": "rabbitmq-streams",
    "u": "rabbitmq-upgrade",
}

SERIES = tuple(PERSONALITIES)


class VerbLine(NamedTuple):
    """Help and number of arguments of a verb, in the series that have it in this form. `most` None: any number."""

    name: str
    group: str
    tools: frozenset[str]
    least: int
    most: int | None
    series: tuple[str, ...]
    usage: str
    about: str
    banner: str


class SeriesVerbs:
    """The verbs of a series."""

    def __init__(self, lines: Iterable[VerbLine], series: str) -> None:
        own = [line for line in lines if series in line.series]
        self._by_tool = {(tool, line.name): line for line in own for tool in line.tools}

    def find(self, tool: str, name: str) -> VerbLine | None:
        """Return a verb of a program; None if it has none of this name."""
        return self._by_tool.get((tool, name))

    def of(self, tool: str) -> list[VerbLine]:
        """Return the verbs of a program, in their order."""
        return [line for (program, _), line in self._by_tool.items() if program == tool]


def read_verbs(texts: Iterable[str]) -> Iterator[VerbLine]:
    """Yield the verbs of texts, in their order."""
    for block in (each for text in texts for each in text.strip().split("\n\n")):
        heading, *lines = block.split("\n")
        starts = [number for number, line in enumerate(lines) if not line.startswith(" ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            yield _read_verb(heading.strip("[]"), *lines[start:end])


_FIRST_LINE = re.compile(
    r"(?P<name>\S+) (?P<tools>\S+) (?P<least>\d)-(?P<most>\S)(?: since=(?P<since>\S+))?(?: until=(?P<until>\S+))?"
    r"(?: (?P<usage>.*))?"
)


def _read_verb(group: str, first: str, about: str, banner: str = "") -> VerbLine:
    found = _FIRST_LINE.fullmatch(first)
    assert found is not None, first
    since, until = (
        SERIES.index(found[name] or default) for name, default in (("since", SERIES[0]), ("until", SERIES[-1]))
    )
    return VerbLine(
        found["name"],
        group,
        frozenset(TOOLS[letter] for letter in found["tools"]),
        int(found["least"]),
        None if found["most"] == "*" else int(found["most"]),
        SERIES[since : until + 1],
        found["usage"] or "",
        about.strip(),
        banner.strip(),
    )
