"""Where sealed segments are found."""

from __future__ import annotations

from pathlib import Path

from leveret_spark.event_log import SegmentName, parse_name


class SegmentDirectory:
    """The sealed segments in a directory: a broker's, or a copy of one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def names(self) -> list[SegmentName]:
        """What there is now, oldest first for each node. Raises OSError when the directory cannot be read."""
        names = (parse_name(path.name) for path in self._directory.iterdir())
        return sorted(name for name in names if name is not None)

    def size(self, name: SegmentName) -> int:
        """A segment's bytes. Raises FileNotFoundError for one that the broker has removed since."""
        return self._file(name).stat().st_size

    def read(self, name: SegmentName) -> bytes:
        """A whole segment. Raises FileNotFoundError for one that the broker has removed since."""
        return self._file(name).read_bytes()

    def _file(self, name: SegmentName) -> Path:
        return self._directory / str(name)
