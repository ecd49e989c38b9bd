"""Places of sealed segments: a directory, or a broker's HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from leveret_events.segment_names import SegmentName, parse_name
from leveret_spark.events.segment_http import NOTHING, SegmentHttp
from leveret_spark.option_errors import OptionError
from leveret_spark.options import WEB, Given, web_of

WEB_SCHEMES = ("http://", "https://")


class SegmentDirectory:
    """The sealed segments in a directory: a broker's, or a copy of one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentDirectory) and other._directory == self._directory

    def __hash__(self) -> int:
        return hash(self._directory)

    def names(self, after: Mapping[str, str] = NOTHING) -> list[SegmentName]:
        """List the segments, oldest first for each node; `after` has the last known name of a node.

        Raises OSError if the directory cannot be read.
        """
        known = {node: parse_name(name) for node, name in after.items()}
        names = (parse_name(path.name) for path in self._directory.iterdir())
        return sorted(name for name in names if name is not None and _is_new(name, known.get(name.node)))

    def size(self, name: SegmentName) -> int:
        """Return the bytes of a segment. Raises FileNotFoundError if the broker has removed it."""
        return self._file(name).stat().st_size

    def read(self, name: SegmentName) -> bytes:
        """Read a whole segment. Raises FileNotFoundError if the broker has removed it."""
        return self._file(name).read_bytes()

    def _file(self, name: SegmentName) -> Path:
        return self._directory / str(name)


Segments = SegmentDirectory | SegmentHttp
"""Both have the same methods."""


def segments_of(given: Given) -> Segments:
    """Return the place of segments that options name: `path`, a directory or a URL, or `url`. Raises OptionError."""
    path, url = given.text("path"), given.text("url")
    if path and url:
        raise OptionError("options path and url exclude each other")
    where = url or path
    if not where:
        raise OptionError("option path is missing: the directory of the event log; or url: http://host:port")
    if url or where.startswith(WEB_SCHEMES):
        return SegmentHttp(web_of(given, where))
    further = [name for name in WEB if given.has(name)]
    if further:
        raise OptionError(f"option {further[0]} is for segments by HTTP, not for a directory")
    return SegmentDirectory(Path(where.removeprefix("file://").removeprefix("file:")))


def _is_new(name: SegmentName, known: SegmentName | None) -> bool:
    return known is None or name > known
