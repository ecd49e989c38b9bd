"""The event log on disk: appended to by a thread of its own, in segments that are sealed by rename.

Appending never blocks: the caller hands events over and goes on. Events that the disk does not take, or not in time,
are missing from the log, and the gap in their numbers shows it. A segment is sealed when it is large or old
enough, and at the end: written whole, synced, renamed, its directory synced. What a killed process left unsealed is
cut at its last whole block and sealed at the next start.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import BinaryIO, NamedTuple

import msgspec

from leveret_spark.events.segment_format import (
    START,
    DamageError,
    SegmentError,
    SegmentName,
    blocks,
    encode_block,
    node_name,
    parse_unsealed,
    sealed_segments,
    unsealed_name,
)
from storage.messages.lmdb_environment import make_directory, sync_directory, sync_file
from storage.messages.records import LastEvent

log = logging.getLogger("leveret.events")

SEAL_LOOK_SECONDS = 1.0
"""How often it is looked whether the thread that seals is still there."""
WAITING_PARTS_MAX = 64
"""How many parts may wait for a slow disk; further ones are lost."""


class EventLogSettings(NamedTuple):
    """Sizes are bytes, times seconds. `kept_bytes` bounds the sealed segments of this node; 0: all are kept."""

    segment_bytes: int
    segment_seconds: float
    kept_bytes: int


class Part(NamedTuple):
    """Some records in a row: `events` in number, the first of them with number `first`."""

    records: Sequence[object]
    first: int
    events: int


class EventLog:
    """The log of one boot. Made by `open`; `close` ends the thread."""

    def __init__(self, directory: Path, node: str, boot: int, settings: EventLogSettings) -> None:
        self._directory = directory
        self._node = node
        self._boot = boot
        self._settings = settings
        self._parts: SimpleQueue[Part | threading.Event | None] = SimpleQueue()
        self._encode = msgspec.msgpack.Encoder().encode
        self._segment: _Segment | None = None
        self._failing = False
        self.lost = 0
        """How many events are missing because the disk did not take them."""
        self._thread = threading.Thread(target=self._run, name="leveret-events", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls, directory: Path, node: str, boot: int, settings: EventLogSettings
    ) -> tuple[EventLog, LastEvent | None]:
        """Begin a boot's log, after sealing what an earlier one left; with the last event found, if there is one.

        Raises OSError when the directory cannot be used.
        """
        make_directory(directory)
        node = node_name(node)
        for path in sorted(directory.iterdir()):
            found = parse_unsealed(path.name)
            if found is not None and found.node == node:
                _seal_leftover(path, found)
        before = [name for name in sealed_segments(directory) if name.node == node and name.boot < boot]
        last = LastEvent(before[-1].boot, before[-1].last) if before else None
        return cls(directory, node, boot, settings), last

    def append(self, part: Part) -> None:
        """Hand over some records. Never blocks: records beyond what the disk can take are dropped and counted."""
        if self._parts.qsize() >= WAITING_PARTS_MAX:
            self._lose(part, "the disk is too slow")
        else:
            self._parts.put(part)

    def seal(self) -> None:
        """Have readers see what was handed over so far: return when its segment is sealed, or the log has ended."""
        sealed = threading.Event()
        self._parts.put(sealed)
        while not sealed.wait(SEAL_LOOK_SECONDS) and self._thread.is_alive():
            pass

    def close(self) -> None:
        """Return when everything that was handed over is written, and its segment sealed."""
        self._parts.put(None)
        self._thread.join()

    # In the thread

    def _run(self) -> None:
        while True:
            try:
                part = self._parts.get(timeout=self._seconds_to_wait())
            except Empty:
                self._seal()
                continue
            if part is None:
                break
            if isinstance(part, threading.Event):
                self._seal()
                part.set()
            else:
                self._write(part)
        self._seal()

    def _seconds_to_wait(self) -> float | None:
        return None if self._segment is None else self._segment.seconds_left(self._settings)

    def _write(self, part: Part) -> None:
        try:
            if self._segment is None:
                self._segment = _Segment.create(self._directory, self._node, self._boot, part.first)
            self._segment.add(encode_block(self._encode(part.records), part.first, part.events), part)
        except Exception as error:  # whatever it is, the broker goes on, and so does its log
            self._lose(part, f"cannot write the event log: {error}")
            return
        self._failing = False
        if self._segment.full(self._settings):
            self._seal()

    def _seal(self) -> None:
        segment, self._segment = self._segment, None
        if segment is None:
            return
        try:
            segment.seal()
            self._make_room()
        except OSError as error:
            log.error("cannot seal a segment of the event log, the next start will: %s", error)

    def _make_room(self) -> None:
        """Remove the oldest segments while there are too many bytes of them; the newest always stays."""
        if not self._settings.kept_bytes:
            return
        names = [name for name in sealed_segments(self._directory) if name.node == self._node]
        sizes = [(self._directory / str(name)).stat().st_size for name in names]
        total = sum(sizes)
        for name, size in zip(names[:-1], sizes, strict=False):
            if total <= self._settings.kept_bytes:
                return
            (self._directory / str(name)).unlink()
            total -= size

    def _lose(self, part: Part, reason: str) -> None:
        self.lost += part.events
        if not self._failing:
            self._failing = True
            log.error("events are being lost: %s", reason)


class _Segment:
    """The segment that is being written."""

    def __init__(self, path: Path, file: BinaryIO, name: SegmentName) -> None:
        self._path = path
        self._file = file
        self._name = name
        self._size = file.tell()
        self._began = time.monotonic()

    @classmethod
    def create(cls, directory: Path, node: str, boot: int, first: int) -> _Segment:
        """Begin a segment with an event."""
        path = directory / unsealed_name(node, boot, first)
        file = path.open("xb", buffering=0)
        file.write(START)
        return cls(path, file, SegmentName(node, boot, first, 0))

    def add(self, block: bytes, part: Part) -> None:
        """Append a block whole; raises OSError, and leaves nothing of it."""
        try:
            written = self._file.write(block)
            if written != len(block):
                raise OSError("the disk is full")
        except OSError:
            self._file.truncate(self._size)
            self._file.seek(self._size)
            raise
        self._size += len(block)
        self._name = self._name._replace(last=part.first + part.events - 1)

    def full(self, settings: EventLogSettings) -> bool:
        """It is large or old enough to be sealed."""
        return self._size >= settings.segment_bytes or not self.seconds_left(settings)

    def seconds_left(self, settings: EventLogSettings) -> float:
        """Until it is old enough to be sealed."""
        return max(0.0, self._began + settings.segment_seconds - time.monotonic())

    def seal(self) -> None:
        """Sync it and give it its name. Without an event there is nothing to keep."""
        self._file.close()
        _seal(self._path, self._name)


def _seal_leftover(path: Path, name: SegmentName) -> None:
    """Seal what a killed process left, up to its last whole block."""
    end, last = len(START), 0
    try:
        for block in blocks(path.read_bytes()):
            end, last = block.end, block.first + block.events - 1
    except DamageError:
        pass
    except SegmentError as error:
        log.error("%s is left as it is: %s", path, error)
        return
    if last:
        with path.open("r+b") as file:
            file.truncate(end)
    _seal(path, name._replace(last=last))


def _seal(path: Path, name: SegmentName) -> None:
    if not name.last:
        path.unlink()
        return
    sync_file(path)
    path.rename(path.with_name(str(name)))
    sync_directory(path.parent)
