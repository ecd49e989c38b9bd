"""I/O figures of the message store: writes, syncs and reads, and the seconds they take."""

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
from storage.pending_sync import PendingSync

RECENT_MAX = 10_000
"""Commits that are kept until they are read."""


class CommitFigures(NamedTuple):
    """One batch's commit. `size`: bytes written to the file; None if the system does not say."""

    messages: int
    seconds: float
    sync_seconds: float
    size: int | None


class IoSums(NamedTuple):
    """Sums of the store's I/O since it was opened; times are seconds."""

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
    synchronously writes a page that makes them valid. Bytes and writes are what the kernel counts for the thread
    meanwhile; without /proc they stay 0. Reads go through mapped memory, so their bytes are those of the records,
    cached or not. `recent` has the last commits, to be taken from the left end, also by another thread.
    """

    def __init__(self) -> None:
        self.writes = self.written_bytes = 0
        self.write_seconds = 0.0
        """Seconds of filling transactions, until their commit."""
        self.syncs = 0
        self.sync_seconds = 0.0
        self.reads = self.read_messages = self.read_bytes = 0
        self.read_seconds = 0.0
        self.commits = 0
        self.last_commit_seconds = 0.0
        self.recent: deque[CommitFigures] = deque(maxlen=RECENT_MAX)
        self._written = _ThreadWrites()
        self._adding = threading.Lock()
        """Held while sums are added to: the journal is written by one thread, LMDB by another."""
        self._last_sync = 0.0
        self._last_size: int | None = None
        self.pending = PendingSync("messages/data.mdb")

    @contextmanager
    def writing(self) -> Iterator[_Transaction]:
        """Measure one transaction that is filled and committed meanwhile. A failed one is not counted."""
        before, transaction = self._written.look(), _Transaction(perf_counter())
        with self.pending:
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
        """Count the commit of a batch to LMDB, begun at `began`, by the transaction measured last."""
        self._count_commit(batch, began, self._last_sync, self._last_size)

    def journaled(self, batch: SealedBatch, began: float, write: JournalWrite) -> None:
        """Count the commit of a batch to the journal, begun at `began`; `write.size` is 0 if no record was needed."""
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
        """Count a read of messages; `size` is the bytes of their bodies and headers."""
        self.reads += 1
        self.read_messages += messages
        self.read_bytes += size
        self.read_seconds += seconds

    def sums(self) -> IoSums:
        """Return the sums so far."""
        return IoSums(*_sums(self))

    def close(self) -> None:
        """Close the file by which the kernel's counts are read."""
        self._written.close()


_sums = attrgetter(*IoSums._fields)


class _Transaction:
    """Times of one transaction in seconds: begin, and end of filling, when only the commit is left."""

    __slots__ = ("began", "filled")

    def __init__(self, began: float) -> None:
        self.began = self.filled = began

    def fill(self) -> None:
        """Note that the transaction is filled and about to be committed."""
        self.filled = perf_counter()


class _ThreadWrites:
    """Bytes written and write calls of the present thread, counted by Linux; reading them takes under a microsecond."""

    def __init__(self) -> None:
        self._asked_for = 0
        """Thread whose writes the open file counts."""
        self._descriptor: int | None = None
        self._open()  # a broker that has written nothing yet has as many descriptors as one that has

    def look(self) -> tuple[int, int] | None:
        """Return both so far; None if the system does not say."""
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
