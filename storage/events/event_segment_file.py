"""The file of an event segment that is being written, and its sealing: synced, renamed, its directory synced."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from leveret_events.segment_blocks import START, DamageError, blocks, owned
from leveret_events.segment_names import SegmentName, unsealed_name
from storage.events.event_tail_file import append_whole
from storage.synced_files import sync_directory, sync_file


class EventSegmentFile:
    """An unsealed event segment. `began`: time of its first event, by the monotonic clock."""

    def __init__(self, path: Path, file: BinaryIO, name: SegmentName, began: float) -> None:
        self._path = path
        self._file = file
        self._name = name
        self.size = file.tell()
        self.began = began

    @classmethod
    def create(cls, directory: Path, node: str, boot: int, first: int, began: float) -> EventSegmentFile:
        """Create a segment whose first event is `first`. Raises OSError."""
        path = directory / unsealed_name(node, boot, first)
        file = path.open("xb", buffering=0)
        try:
            append_whole(file, START + owned(node, boot), 0)
        except OSError:
            file.close()
            path.unlink()
            raise
        return cls(path, file, SegmentName(node, boot, first, 0), began)

    @classmethod
    def left_over(cls, path: Path, name: SegmentName) -> EventSegmentFile:
        """Open the unsealed segment of a killed process, cut behind its last complete block. Raises OSError.

        Raises SegmentError for a file that is not a segment, or one of a later version.
        """
        data = path.read_bytes()
        end, found = len(START), []
        try:
            for block in blocks(data):
                found.append(block)
                end = block.end
        except DamageError:
            pass
        file = path.open("r+b", buffering=0)
        file.truncate(end)
        file.seek(end)
        if found:
            name = name._replace(first=found[0].first, last=found[-1].first + found[-1].events - 1)
        return cls(path, file, name, 0.0)

    @property
    def last(self) -> int:
        """Number of its last event; 0: it has none."""
        return self._name.last

    def add(self, block: bytes, first: int, events: int) -> None:
        """Append a block. Raises OSError, and then nothing of it is in the file."""
        assert first > self.last, f"a block begins with event {first}, and event {self.last} is in the segment already"
        append_whole(self._file, block, self.size)
        self.size += len(block)
        if not self.last:
            self._name = self._name._replace(first=first)
        self._name = self._name._replace(last=first + events - 1)

    def seal(self) -> None:
        """Sync the file and rename it to a sealed segment; delete it if it has no events. Raises OSError."""
        self._file.close()
        if not self.last:
            self._path.unlink()
            return
        sync_file(self._path)
        self._path.rename(self._path.with_name(str(self._name)))
        sync_directory(self._path.parent)
