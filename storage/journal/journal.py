"""Batches on disk with one write each, and what LMDB is to be given of them."""

from __future__ import annotations

import logging
import secrets
import time
from functools import reduce
from pathlib import Path
from threading import Lock
from typing import NamedTuple, final

from storage.batch import SealedBatch
from storage.high_water import HighWaterFile
from storage.journal.journal_file import JournalFile, JournalWrite
from storage.journal.journal_mark import CLOSED, OPEN, SALT_BYTES, JournalMark, JournalPosition
from storage.journal.journal_records import encode_batch
from storage.journal.unapplied_writes import LaneView, UnappliedWrites, merged

log = logging.getLogger("leveret.journal")

NOTHING_WRITTEN = JournalWrite(0, 0.0)
HIGH_WATER = "journal.end"


class JournalFigures(NamedTuple):
    """The journal as a policy of commits sees it, without the parcel that LMDB is being given."""

    staying: int
    """Messages that LMDB is to be given, unless they are taken away before."""
    staying_bytes: int
    """About how many bytes these have."""
    parcel_under_way: bool
    """LMDB has not got all of a parcel."""
    first: bool
    """The batch that was taken last was the first behind a parcel."""


@final
class Journal:
    """The journal of an open store. Without a file it takes nothing, and all goes to LMDB at once.

    One thread at a time takes batches, and one gives LMDB what it lacks; any may look at a lane. What LMDB is given at
    once is a *parcel*: what was taken until it was made up. What is taken after that waits for the next one.

    Each batch has a number, ascending by one, also those that LMDB takes at once. The first of a boot is such a one:
    with it LMDB gets the journal's salt, before there is a record.
    """

    def __init__(self, file: JournalFile | None, high_water: HighWaterFile | None = None, boot: int = 0) -> None:
        self._file = file
        self._high_water = high_water
        self._boot = boot
        self._marked = False
        """LMDB's mark names this journal."""
        self._salt, self._size = (file.salt, file.size) if file is not None else (bytes(SALT_BYTES), 0)
        self._lock = Lock()
        """Held while what LMDB lacks is changed or looked at."""
        self._taking = Lock()
        """Held while a batch is taken and while a parcel is made up: a batch that is on disk is in it or behind it."""
        self._writes = UnappliedWrites()
        self._parcel: UnappliedWrites | None = None
        self.number = 0
        """Of the last batch."""
        self._parcel_end = self._position = JournalPosition(0, 0, 0) if file is None else file.position(0)
        self._first = True
        """The batch that was taken last was the first behind a parcel."""
        self.last_write = NOTHING_WRITTEN
        """What the last batch that was taken has cost."""

    @classmethod
    def open(cls, directory: Path, boot: int, size: int) -> Journal:
        """The journal of this boot, of `size` bytes; 0: none. On a disk without room for it there is none either.

        LMDB must have what is in the file already, and a mark that says so.
        """
        high_water = _high_water(directory)
        file = None
        if size:
            try:
                file = JournalFile(directory, secrets.token_bytes(SALT_BYTES), boot, size)
            except OSError as error:
                log.warning("%s; messages are committed without a journal, until the next start", error)
        journal = cls(file, high_water, boot)
        journal._note_high_water()
        return journal

    def close(self) -> None:
        """Let go of the files."""
        if self._file is not None:
            self._file.close()
        if self._high_water is not None:
            self._high_water.close()

    def take(self, batch: SealedBatch) -> bool:
        """Have a batch on disk. False, and nothing was done, where LMDB has to take it, and what it lacks, at once.

        What only ends with the process needs no disk. A file that cannot be written is given up: LMDB is written and
        synced apart from it, and says itself what has become of the disk.
        """
        with self._taking:
            file, writes = self._file, self._writes
            if file is None or not self._marked or not file.reserved or writes.bytes > file.size:
                return False
            payload = encode_batch(batch)
            self.last_write = NOTHING_WRITTEN
            if payload and not self._append(file, payload):
                return False
            self._first = not writes.batches
            with self._lock:
                writes.add(batch)
            return True

    def figures(self) -> JournalFigures:
        """Return the figures of this moment. From any thread."""
        writes = self._writes
        return JournalFigures(writes.staying, writes.staying_bytes, self._parcel is not None, self._first)

    def _append(self, file: JournalFile, payload: bytes) -> bool:
        if not file.fits(len(payload)):
            return False
        number = self.number + 1
        try:
            self.last_write = file.append(number, payload)
        except OSError as error:
            log.warning("%s; messages are committed without the journal, until the next start", error)
            file.close()
            self._file = None
            return False
        self.number, self._position = number, file.position(number)
        self._note_high_water()
        return True

    def _note_high_water(self) -> None:
        """Note the last number where it outlives the process. Whoever cannot be told is not waited for."""
        if self._high_water is not None:
            try:
                self._high_water.note(self._salt, self._boot, self.number)
            except OSError as error:
                log.warning("%s; how far the journal goes is not noted, until the next start", error)
                self._high_water.close()
                self._high_water = None

    def begin_boot(self, boot: int) -> None:
        """Forget everything: another boot begins, and what LMDB holds is all there is. Its mark names no journal yet.

        Raises OSError.
        """
        with self._lock:
            self._writes, self._parcel = UnappliedWrites(), None
        self.number, self._boot, self._marked = 0, boot, False
        if self._file is not None:
            self._salt = secrets.token_bytes(SALT_BYTES)
            self._file.begin(self._salt, boot)
            self._position = self._parcel_end = self._file.position(0)
        self._note_high_water()

    # The reserve

    @property
    def reserved(self) -> bool:
        """There is room for LMDB to catch up, whatever becomes of the disk; without it nothing is journaled."""
        file = self._file
        return file is None or file.reserved

    def release_reserve(self) -> bool:
        """Give that room to a full disk. False when that was done already."""
        file = self._file
        return file is not None and file.release_reserve()

    def restore_reserve(self) -> None:
        """Take the room again, if the disk has it."""
        file = self._file
        if file is not None:
            file.restore_reserve()

    # What LMDB lacks

    @property
    def ahead(self) -> bool:
        """LMDB lacks something."""
        return self._writes.batches > 0 or self._parcel is not None

    def make_parcel(self, *, everything: bool = False) -> bool:
        """Make up a parcel of what was taken until now, unless LMDB has not got all of the one before.

        `everything`: also then, together with that one. False where LMDB lacks nothing.
        """
        if everything:
            self.take_parcel_back()
        with self._taking:
            if self._parcel is None:
                if self._writes.batches:
                    with self._lock:
                        self._parcel, self._writes = self._writes, UnappliedWrites()
                self._parcel_end = self._position._replace(number=self.number)
                if self._file is not None:
                    self._file.end_parcel()
            return self._parcel is not None

    def parcel(self, batch: SealedBatch | None = None) -> tuple[SealedBatch, JournalMark | None]:
        """The parcel as one batch, with one more that was not taken; and the mark that LMDB gets with it.

        None where there was no journal in this boot.
        """
        parcel = [self._parcel.sealed()] if self._parcel else []
        return reduce(merged, [*parcel, batch] if batch else parcel), self._mark(direct=batch is not None)

    def _mark(self, *, direct: bool) -> JournalMark | None:
        """The mark of a commit that gives LMDB the parcel, and, if `direct`, one more batch."""
        if not self._size:
            return None
        position = self._parcel_end
        if direct:
            position = position._replace(number=position.number + 1)
        # With a batch that was not taken LMDB has everything, and a file that was given up is not needed any more.
        state = CLOSED if direct and self._file is None else OPEN
        return JournalMark(state, self._salt, self._size, position, _milliseconds())

    def closing_mark(self) -> JournalMark | None:
        """The mark that says that LMDB has everything; None where it has not, or its mark names no journal."""
        if self.ahead or not self._marked:
            return None
        position = self._position._replace(number=self.number)
        return JournalMark(CLOSED, self._salt, self._size, position, _milliseconds())

    def take_parcel_back(self) -> None:
        """LMDB could not take the parcel: it is given all there is the next time."""
        with self._taking, self._lock:
            if self._parcel is not None:
                self._writes, self._parcel = self._whole(), None

    def parcel_applied(self, mark: JournalMark | None) -> None:
        """LMDB has the parcel, and the mark that went with it."""
        with self._taking:
            with self._lock:
                self._parcel = None
            if mark is not None:
                self._marked = True
                if mark.position.number > self.number:
                    self.number = mark.position.number
                    self._note_high_water()
            if self._file is not None:
                self._file.release_parcel()

    def unapplied(self) -> SealedBatch:
        """All that LMDB lacks, as one batch."""
        return self._whole().sealed()

    def _whole(self) -> UnappliedWrites:
        """The parcel, and what was taken behind it, together."""
        whole = UnappliedWrites()
        for writes in (self._parcel, self._writes):
            if writes is not None and writes.batches:
                whole.add(writes.sealed())
        return whole

    def view(self, queue_id: int, lane: int, after: int, before: int) -> LaneView | None:
        """What a reader of a lane between two positions, both exclusive, has to know; None where LMDB has it all.

        To be asked before the reader's transaction begins: what is not here then is in LMDB.
        """
        with self._lock:
            later = self._writes.view(queue_id, lane, after, before)
            earlier = self._parcel.view(queue_id, lane, after, before) if self._parcel else None
        if earlier is None or later is None:
            return earlier or later
        return earlier.then(later)


def _high_water(directory: Path) -> HighWaterFile | None:
    try:
        return HighWaterFile(directory / HIGH_WATER)
    except OSError as error:
        log.warning("%s; how far the journal goes is not noted, until the next start", error)
        return None


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
