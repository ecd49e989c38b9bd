"""What the message store does to its file, counted by itself: writes, syncs and reads, and the time they take."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from time import perf_counter
from typing import NamedTuple

from storage.batch import SealedBatch
from storage.journal.journal_file import JournalWrite

RECENT_MAX = 10_000
"""How many commits are remembered until they are asked for."""


class CommitFigures(NamedTuple):
    """One batch's commit. `size` is bytes written to the file, None where the system does not say."""

    messages: int
    seconds: float
    sync_seconds: float
    size: int | None


class IoSums(NamedTuple):
    """What the store has done to its file since it was opened; times are seconds."""

    writes: int
    written_bytes: int
    write_seconds: float
    syncs: int
    sync_seconds: float
    reads: int
    read_messages: int
    read_bytes: int
    read_seconds: float


class StoreIo:
    """Sums since the store was opened.

    A sync is a write into the journal, or LMDB's commit of one transaction: it writes the pages, syncs them, and
    writes a page synchronously that makes them count. Bytes and writes are what the kernel counts for the thread
    meanwhile; without /proc they stay 0. Reads go by mapped memory, so theirs are those of the store's records,
    wherever the kernel had them.
    `recent` has the last batches' commits, to be taken from its left end, by another thread, too.
    """

    def __init__(self) -> None:
        self.writes = self.written_bytes = 0
        self.write_seconds = 0.0
        """Filling transactions, until they are committed."""
        self.syncs = 0
        self.sync_seconds = 0.0
        self.reads = self.read_messages = self.read_bytes = 0
        self.read_seconds = 0.0
        self.commits = 0
        self.last_commit_seconds = 0.0
        self.recent: deque[CommitFigures] = deque(maxlen=RECENT_MAX)
        self._written = _ThreadWrites()
        self._adding = threading.Lock()
        """The journal is written by one thread, and LMDB by another."""
        self._last_sync = 0.0
        self._last_size: int | None = None

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        """Measure one transaction that is filled and committed meanwhile; one that fails counts nowhere."""
        before, transaction = self._written.look(), _Transaction(perf_counter())
        yield transaction
        ended, after = perf_counter(), self._written.look()
        self._last_sync, self._last_size = ended - transaction.filled, None
        with self._adding:
            self.write_seconds += transaction.filled - transaction.began
            self.sync_seconds += self._last_sync
            self.syncs += 1
            if before is not None and after is not None:
                self._last_size = after[0] - before[0]
                self.written_bytes += self._last_size
                self.writes += after[1] - before[1]

    def committed(self, batch: SealedBatch, began: float) -> None:
        """A commit of a batch, which began at this time, went to LMDB by the transaction measured last."""
        self._count_commit(batch, began, self._last_sync, self._last_size)

    def journaled(self, batch: SealedBatch, began: float, write: JournalWrite) -> None:
        """The same by a record in the journal, or by nothing, where no record was needed."""
        if write.size:
            with self._adding:
                self.writes += 1
                self.written_bytes += write.size
                self.syncs += 1
                self.sync_seconds += write.seconds
        self._count_commit(batch, began, write.seconds, write.size)

    def _count_commit(self, batch: SealedBatch, began: float, sync_seconds: float, size: int | None) -> None:
        self.commits += 1
        self.last_commit_seconds = perf_counter() - began
        messages = sum(len(lane.puts) for lane in batch.lanes)
        self.recent.append(CommitFigures(messages, self.last_commit_seconds, sync_seconds, size))

    def read(self, seconds: float, messages: int, size: int) -> None:
        """Messages were read back, their bodies and headers of so many bytes."""
        self.reads += 1
        self.read_messages += messages
        self.read_bytes += size
        self.read_seconds += seconds

    def sums(self) -> IoSums:
        """All of it so far."""
        return IoSums(*_sums(self))

    def close(self) -> None:
        """Let go of what the system is asked by."""
        self._written.close()


_sums = attrgetter(*IoSums._fields)


class _Transaction:
    """When one transaction began, and when there was nothing left to do but commit it: seconds."""

    __slots__ = ("began", "filled")

    def __init__(self, began: float) -> None:
        self.began = self.filled = began

    def fill(self) -> None:
        """It is about to be committed."""
        self.filled = perf_counter()


class _ThreadWrites:
    """Bytes and calls that the present thread has written, as Linux counts them: less than a microsecond to ask."""

    def __init__(self) -> None:
        self._asked_for = 0
        """The thread whose writes the open file counts."""
        self._descriptor: int | None = None
        self._open()  # a broker that has written nothing yet has as many descriptors as one that has

    def look(self) -> tuple[int, int] | None:
        """Both so far; None where the system does not say."""
        if self._asked_for != threading.get_ident():
            self._open()
        if self._descriptor is None:
            return None
        _, _, _, wchar, _, _, _, syscw, *_ = os.pread(self._descriptor, 512, 0).split(None, 8)
        return int(wchar), int(syscw)

    def _open(self) -> None:
        self.close()
        self._asked_for = threading.get_ident()
        try:
            self._descriptor = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._descriptor = None

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._asked_for = 0
