"""Names of event segments. `SegmentName` is one name, taken apart.

A segment that is being written is named `_tmp.NODE-BOOT-FIRST`; one that is sealed never changes again, and its
name says what it holds: `NODE-BOOT-FIRST-LAST.events`. Names of one node sort by age.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

_SEALED = re.compile(
    r"(?P<node>[A-Za-z0-9._@-]{1,100})-(?P<boot>[0-9]{8})-(?P<first>[0-9]{16})-(?P<last>[0-9]{16})\.events"
)
"""Never a path, and short enough for any file system: names of segments come from readers elsewhere, too."""
_UNSEALED = re.compile(r"_tmp\.(?P<node>.+)-(?P<boot>\d{8})-(?P<first>\d{16})")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._@-]+")
_NODE_CHARACTERS = 100


class SegmentName(NamedTuple):
    """Name of a sealed event segment: it holds the events from `first` to `last` of one boot of a node."""

    node: str
    boot: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.node}-{self.boot:08}-{self.first:016}-{self.last:016}.events"


def node_name(name: str) -> str:
    """Convert a node's name for file names: at most 100 characters, `_` for runs of others than [A-Za-z0-9._@-]."""
    return _NOT_IN_NAMES.sub("_", name)[:_NODE_CHARACTERS] or "_"


def parse_name(name: str) -> SegmentName | None:
    """Parse the file name of a sealed segment. None for any other name."""
    found = _SEALED.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), int(found["last"]))


def unsealed_name(node: str, boot: int, first: int) -> str:
    """File name of a segment while it is written. Spark and others pass over names that begin with `_`."""
    return f"_tmp.{node}-{boot:08}-{first:016}"


def parse_unsealed(name: str) -> SegmentName | None:
    """Parse the file name of a segment that was never sealed; its `last` is unknown and 0. None for any other name."""
    found = _UNSEALED.fullmatch(name)
    return found and SegmentName(found["node"], int(found["boot"]), int(found["first"]), 0)


def sealed_segments(directory: Path) -> list[SegmentName]:
    """Sealed segments in a directory, oldest first."""
    names = (parse_name(path.name) for path in directory.iterdir())
    return sorted(name for name in names if name is not None)
