"""The journal of a running store: batches made durable with one write each, and handed to LMDB in parcels."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from threading import Lock
from typing import NamedTuple, final

from storage.batch import SealedBatch
from storage.high_water import HighWaterFile
from storage.journal.journal_file import JournalFile, JournalWrite
from storage.journal.journal_mark import CLOSED, OPEN, SALT_BYTES, JournalMark, JournalPosition
from storage.journal.journal_payload import encode_batch
from storage.journal.unapplied_writes import LaneView, UnappliedWrites, merged
from storage.pending_sync import PendingSync

log = logging.getLogger("leveret.journal")

NOTHING_WRITTEN = JournalWrite(0, 0.0)
HIGH_WATER = "journal.end"


class JournalFigures(NamedTuple):
    """Figures of the journal for the commit policy, without the parcel that LMDB is applying."""

    staying: int
    """Messages that LMDB has to be given, unless they are settled before."""
    staying_bytes: int
    """Approximate bytes of these."""
    parcel_under_way: bool
    """LMDB is still applying a parcel."""
    first: bool
    """The last batch was the first behind a parcel."""


@final
class Journal:
    """The journal of an open store. Without a file it takes nothing, and every batch goes to LMDB at once.

    One thread at a time takes batches, and one hands them to LMDB; any thread may view a lane. A *parcel* is what LMDB
    is given at once: all batches taken until it was made up. Later batches wait for the next parcel.

    Batches are numbered, ascending by one, also those that go to LMDB at once. The first of a boot is one of these:
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
        """Held while the unapplied writes are changed or viewed."""
        self._taking = Lock()
        """Held while a batch is taken or a parcel is made up: a batch on disk is in the parcel or behind it."""
        self._writes = UnappliedWrites()
        self._parcel: UnappliedWrites | None = None
        self.number = 0
        """Number of the last batch."""
        self._parcel_end = self._position = JournalPosition(0, 0, 0) if file is None else file.position(0)
        self._first = True
        """The last batch taken was the first behind a parcel."""
        self.last_write = NOTHING_WRITTEN
        """Bytes and seconds of the last batch taken."""
        self.on_durable: Callable[[SealedBatch, int, bytes], None] | None = None
        """Called with each batch that is on disk, its number and, of one that was journaled, its payload. In order, by
        the thread that has committed it."""
        self.pending = PendingSync("messages/journal")

    @classmethod
    def open(cls, directory: Path, boot: int, size: int) -> Journal:
        """Open a journal of `size` bytes for this boot. With 0, or on a disk without room for it, it has no file.

        LMDB must have applied all that is in the file, and have a mark that says so.
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
        """Close the files."""
        if self._file is not None:
            self._file.close()
        if self._high_water is not None:
            self._high_water.close()

    def take(self, batch: SealedBatch) -> bool:
        """Make a batch durable. False, with nothing done, if it has to go to LMDB now, with all that LMDB lacks.

        A batch of transient data alone is not written. A file that cannot be written is given up: LMDB is written and
        synced independently of it, and reports the state of the disk itself.
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
            # On disk before readers see it: nobody is shown a message that a crash could still take away.
            with self._lock:
                writes.add(batch)
            on_durable = self.on_durable  # the event loop may take it away
            if payload and on_durable is not None:
                on_durable(batch, self.number, payload)
            return True

    @property
    def numbers_all(self) -> bool:
        """True if every batch of this boot has a number, and LMDB's mark names the last one that it has."""
        return self._size > 0

    def figures(self) -> JournalFigures:
        """Return the figures of this moment. From any thread."""
        writes = self._writes
        return JournalFigures(writes.staying, writes.staying_bytes, self._parcel is not None, self._first)

    def _append(self, file: JournalFile, payload: bytes) -> bool:
        if not file.fits(len(payload)):
            return False
        number = self.number + 1
        try:
            with self.pending:
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
        """Write the last number into the high-water mark. A mark that cannot be written is given up."""
        if self._high_water is not None:
            try:
                self._high_water.note(self._salt, self._boot, self.number)
            except OSError as error:
                log.warning("%s; the high-water mark of the journal is not written until the next start", error)
                self._high_water.close()
                self._high_water = None

    def begin_boot(self, boot: int) -> None:
        """Drop all unapplied writes: another boot begins, on what LMDB holds. LMDB's mark names no journal yet.

        Raises OSError.
        """
        assert boot > self._boot, f"boot {boot} does not come after boot {self._boot}"
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
        """True if the reserve for LMDB to catch up on a full disk is there. Without it nothing is journaled."""
        file = self._file
        return file is None or file.reserved

    def release_reserve(self) -> bool:
        """Free the reserve on a full disk. False if that was done already."""
        file = self._file
        return file is not None and file.release_reserve()

    def restore_reserve(self) -> None:
        """Allocate the reserve again, if the disk has room."""
        file = self._file
        if file is not None:
            file.restore_reserve()

    # What LMDB lacks

    @property
    def ahead(self) -> bool:
        """True if LMDB lacks anything."""
        return self._writes.batches > 0 or self._parcel is not None

    def make_parcel(self, *, everything: bool = False) -> bool:
        """Make up a parcel of all batches taken until now, unless LMDB is still applying one.

        False if LMDB lacks nothing. `everything`: take that one back first, and make one parcel of both.
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
        """Return the parcel, merged with `batch`, which was not taken, and the mark that LMDB gets with both.

        The mark is None if there was no journal in this boot.
        """
        parcel = [self._parcel.sealed()] if self._parcel else []
        assert parcel or batch is not None, "LMDB is given a parcel, a batch, or both"
        return reduce(merged, [*parcel, batch] if batch else parcel), self._mark(direct=batch is not None)

    def _mark(self, *, direct: bool) -> JournalMark | None:
        """Return the mark of a commit of the parcel and, if `direct`, of one more batch, which was not taken."""
        if not self._size:
            return None
        position = self._parcel_end
        if direct:
            position = position._replace(number=position.number + 1)
        # With a direct batch LMDB has everything, so a file that was given up is not needed any more.
        state = CLOSED if direct and self._file is None else OPEN
        return JournalMark(state, self._salt, self._size, position, _milliseconds())

    def closing_mark(self) -> JournalMark | None:
        """Return the mark of a clean stop: LMDB has everything. None if it has not, or if its mark names no journal."""
        if self.ahead or not self._marked:
            return None
        position = self._position._replace(number=self.number)
        return JournalMark(CLOSED, self._salt, self._size, position, _milliseconds())

    def take_parcel_back(self) -> None:
        """Merge a parcel that LMDB could not apply with the later batches: the next parcel has all of them."""
        with self._taking, self._lock:
            if self._parcel is not None:
                self._writes, self._parcel = self._whole(), None

    def parcel_applied(self, mark: JournalMark | None) -> None:
        """Note that LMDB has the parcel, and the mark that went with it."""
        with self._taking:
            assert mark is None or mark.position.number >= self._parcel_end.number, "a mark behind its own parcel"
            with self._lock:
                self._parcel = None
            if mark is not None:
                self._marked = True
                if mark.position.number > self.number:  # a direct batch went with it, which has taken a number too
                    self.number = mark.position.number
                    self._note_high_water()
            if self._file is not None:
                self._file.release_parcel()

    def unapplied(self) -> SealedBatch:
        """Return all that LMDB lacks, as one batch."""
        return self._whole().sealed()

    def _whole(self) -> UnappliedWrites:
        """Merge the parcel with the batches taken behind it."""
        whole = UnappliedWrites()
        for writes in (self._parcel, self._writes):
            if writes is not None and writes.batches:
                whole.add(writes.sealed())
        return whole

    def places(self) -> list[tuple[int, int]]:
        """List queue and lane of every lane with messages that LMDB lacks."""
        with self._lock:
            writes = [each for each in (self._parcel, self._writes) if each is not None]
            return [place for each in writes for place in each.places()]

    def view(self, queue_id: int, lane: int, after: int, before: int) -> LaneView | None:
        """Return the unapplied writes that a reader of a lane between two positions needs; None if LMDB has all of it.

        Both positions are exclusive. Call it before the reader's transaction begins: what is not here then is in LMDB.
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
        log.warning("%s; the high-water mark of the journal is not written until the next start", error)
        return None


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
