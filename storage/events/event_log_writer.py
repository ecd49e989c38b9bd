"""Writer of the event log: events go to a tail file at once, and from there into event segments, sealed by rename.

`append` hands events to the kernel: one write into the tail, by the calling thread. Another thread compresses full
tails into the segment that is being written. Events that the disk does not take are missing in the log, and the gap in
their numbers shows it. A segment is sealed when it is large or old enough, and at the end: written completely, synced,
renamed, its directory synced. The files of a killed process are sealed at the next start (`event_log_recovery`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple

import msgspec

from leveret_events.segment_names import node_name, sealed_segments
from storage.events.event_log_recovery import seal_left_over
from storage.events.event_segment_file import EventSegmentFile
from storage.events.event_tail_file import EventTailFile, as_segment_blocks
from storage.messages.small_records import NumberInBoot
from storage.synced_files import make_directory

log = logging.getLogger("leveret.events")

SEAL_LOOK_SECONDS = 1.0
"""Interval at which `seal` checks that the thread still runs."""
TAIL_BYTES = 1 << 20
"""Size at which a tail is turned into blocks; smaller if segments are."""
WAITING_TAILS_MAX = 64
"""Tails that may wait for a slow disk; further events are lost."""


class EventLogSettings(NamedTuple):
    """Sizes are bytes, times seconds. `kept_bytes` bounds the sealed segments of this node; 0: all are kept."""

    segment_bytes: int
    segment_seconds: float
    kept_bytes: int


class Part(NamedTuple):
    """Consecutive records that stand for `events` events, the first of them numbered `first`."""

    records: Sequence[object]
    first: int
    events: int


class WriterSignal(Enum):
    """Requests to the thread beside tails."""

    BEGUN = "a tail has begun: seal it in time"
    SEAL = "seal the segment"
    END = "end"


class EventLog:
    """The log of one boot. Made by `open`; `close` ends the thread."""

    def __init__(self, directory: Path, node: str, boot: int, settings: EventLogSettings) -> None:
        self._directory = directory
        self._node = node
        self._boot = boot
        self._settings = settings
        self._tasks: SimpleQueue[EventTailFile | threading.Event | WriterSignal] = SimpleQueue()
        self._encode = msgspec.msgpack.Encoder().encode
        self._lock = threading.Lock()
        """Held while the tail is appended to or handed over."""
        self._tail: EventTailFile | None = None
        self._segment: EventSegmentFile | None = None
        self._failing = False
        self.lost = 0
        """Events missing because the disk did not take them."""
        self._thread = threading.Thread(target=self._run, name="leveret-events", daemon=True)
        self._thread.start()

    @classmethod
    def open(
        cls, directory: Path, node: str, boot: int, settings: EventLogSettings
    ) -> tuple[EventLog, NumberInBoot | None]:
        """Begin a boot's log, after sealing the files of a killed process. Returns also the last event found, if any.

        Raises OSError if the directory cannot be used.
        """
        make_directory(directory)
        node = node_name(node)
        seal_left_over(directory, node)
        before = [name for name in sealed_segments(directory) if name.node == node and name.boot < boot]
        last = NumberInBoot(before[-1].boot, before[-1].last) if before else None
        return cls(directory, node, boot, settings), last

    def append(self, part: Part) -> None:
        """Write records to the tail, so that they survive a kill of the process: one write, without a sync.

        Records that the disk does not take are dropped and counted.
        """
        if self._tasks.qsize() >= WAITING_TAILS_MAX:
            self._lose(part.events, "the disk is too slow")
            return
        with self._lock:
            try:
                tail = self._tail or self._begin_tail(part.first)
                tail.add(self._encode(part.records), part.first, part.events)
            except Exception as error:  # the broker continues after any error of its log
                self._lose(part.events, f"cannot write the event log: {error}")
                return
            if tail.size >= min(TAIL_BYTES, self._settings.segment_bytes):
                self._hand_over_tail()

    def seal(self) -> None:
        """Seal the segment of all that was appended so far, for readers.

        Returns when it is sealed, or the log has ended.
        """
        sealed = threading.Event()
        self._hand_over(sealed)
        while not sealed.wait(SEAL_LOOK_SECONDS) and self._thread.is_alive():
            pass

    def close(self) -> None:
        """Seal everything that was appended, and end the thread."""
        self._hand_over(WriterSignal.END)
        self._thread.join()

    def _begin_tail(self, first: int) -> EventTailFile:
        self._tail = EventTailFile(self._directory, self._node, self._boot, first)
        self._tasks.put(WriterSignal.BEGUN)
        return self._tail

    def _hand_over_tail(self) -> None:
        """Hand the tail to the thread; the next event begins another one. Call it with the lock held."""
        if self._tail is not None:
            self._tasks.put(self._tail)
            self._tail = None

    def _hand_over(self, task: threading.Event | WriterSignal) -> None:
        """Give the thread a task, to be done behind all that was appended so far."""
        with self._lock:
            self._hand_over_tail()
            self._tasks.put(task)

    def _lose(self, events: int, reason: str) -> None:
        self.lost += events
        if not self._failing:
            self._failing = True
            log.error("events are lost: %s", reason)

    # In the thread

    def _run(self) -> None:
        while (task := self._next_task()) is not WriterSignal.END:
            if isinstance(task, EventTailFile):
                self._take_in(task)
            elif task is not WriterSignal.BEGUN:
                self._seal()
            if isinstance(task, threading.Event):
                task.set()
        self._seal()

    def _next_task(self) -> EventTailFile | threading.Event | WriterSignal:
        try:
            return self._tasks.get(timeout=self._seconds_left())
        except Empty:
            self._hand_over(WriterSignal.SEAL)
            return self._tasks.get()

    def _seconds_left(self) -> float | None:
        """Seconds until the oldest unsealed event has to be sealed; None if all are."""
        oldest = self._segment or self._tail
        return None if oldest is None else max(0.0, oldest.began + self._settings.segment_seconds - monotonic())

    def _take_in(self, tail: EventTailFile) -> None:
        """Move the events of a tail into the segment."""
        left = tail.events  # counted down, so that an error loses exactly the events that are in no block
        try:
            for block, first, events in as_segment_blocks(tail.blocks()):
                if self._segment is None:
                    self._segment = EventSegmentFile.create(self._directory, self._node, self._boot, first, tail.began)
                self._segment.add(block, first, events)
                left -= events
                if self._segment.size >= self._settings.segment_bytes:
                    self._seal()
            self._failing = False
        except Exception as error:
            self._lose(left, f"cannot write the event log: {error}")
        finally:
            with suppress(OSError):
                tail.remove()

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
        """Remove the oldest segments until at most `kept_bytes` are left; the newest always stays."""
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
