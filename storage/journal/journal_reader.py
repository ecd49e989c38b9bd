"""Reading the journal at a start: the records behind LMDB's mark, in order. `journal_file` has the layout.

A record counts if it lies where the one before ends, has the mark's salt and the next number, and carries the checksum
of the one before. The journal ends at the first that does not: a crash has interrupted its write, and nobody had a
confirm for it. If the head of a later record or the high-water mark shows that more was written, batches are lost, and
the start has to be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zlib_ng.zlib_ng import crc32

from storage.high_water import HighWaterMark
from storage.journal.journal_file import (
    BATCH,
    CHECKSUM,
    FILE,
    HEADER,
    MAGIC,
    NAME,
    PAGE_BYTES,
    PAYLOAD_AT,
    RING_AT,
    pages,
)
from storage.journal.journal_mark import JournalMark, JournalPosition
from storage.storage_errors import StoreIncompatible


class JournalRecord(NamedTuple):
    """A record read from the journal."""

    number: int
    payload: memoryview


class LostBatches(NamedTuple):
    """Batches that were written and cannot be read: `first` to `last`, which is below `first` if it is not known.

    `reason` names the file. `since`: time of the last commit to LMDB, in UTC; empty if unknown.
    """

    first: int
    last: int
    reason: str
    since: str = ""

    @property
    def sentence(self) -> str:
        """The loss as a sentence for an operator."""
        if self.last > self.first:
            what = f"batches {self.first} to {self.last} at least are lost"
        elif self.last == self.first:
            what = f"batch {self.first} at least is lost"
        else:
            what = f"batches from {self.first} on may be lost"
        return f"{self.reason}; {what}{f', committed after {self.since}' if self.since else ''}"


class JournalContents(NamedTuple):
    """The records that LMDB lacks, in order, and the place behind them.

    If some are lost, `records` has those before them and the complete ones behind them.
    """

    records: list[JournalRecord]
    position: JournalPosition
    lost: LostBatches | None


class JournalHead(NamedTuple):
    """The head of the file or of a record; `journal_file` has its layout."""

    kind: int
    salt: bytes
    number: int
    previous: int
    size: int
    payload_checksum: int
    checksum: int


def read_journal(directory: Path, mark: JournalMark, reached: HighWaterMark | None) -> JournalContents:
    """Read the records behind a mark that needs the journal. Raises OSError, and StoreIncompatible.

    `reached`: the high-water mark, if there is one.
    """
    path = directory / NAME
    known = reached.number if reached is not None and reached.owner == mark.salt else 0
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return _all_lost(mark, known, f"{path} is missing")
    problem = _wrong_file(path, data, mark)
    if problem:
        return _all_lost(mark, known, problem)
    ring = _Ring(data, mark)
    records, position = _chain(ring, mark.position)
    assert position.number == mark.position.number + len(records), "a chain has every number behind the mark"
    # Number `position.number + 1` may be there as a head without its payload: the record that the crash interrupted.
    later = {head.number: at for at, head in ring.heads() if head.number > position.number + 1}
    last, is_cut = max((position.number, known, *later)), len(data) < RING_AT + mark.size
    if last == position.number and not is_cut:
        return JournalContents(records, position, None)
    if is_cut:
        reason = f"{path} is cut short at {len(data)} bytes: it had {RING_AT + mark.size} at least"
    else:
        reason = f"{path} is damaged at {RING_AT + position.at}, or it or data.mdb is of an earlier moment"
    return _with_later(ring, records, position, later, LostBatches(position.number + 1, last, reason, mark.moment))


def read_head(directory: Path) -> JournalHead | None:
    """Read the head of a journal's file; None if it cannot be read."""
    try:
        with (directory / NAME).open("rb") as file:
            head = _head(file.read(PAYLOAD_AT), 0)
    except OSError:
        return None
    return head if head is not None and head.kind == FILE else None


def _all_lost(mark: JournalMark, known: int, reason: str) -> JournalContents:
    """Contents of a journal that cannot be read. LMDB may lack batches even if the high-water mark does not say so."""
    number = mark.position.number
    return JournalContents([], mark.position, LostBatches(number + 1, max(number, known), reason, mark.moment))


def _wrong_file(path: Path, data: bytes, mark: JournalMark) -> str:
    """Return the reason why a file is not the mark's journal; empty if it is."""
    if not data[:RING_AT].strip(b"\0"):
        return f"{path} is empty: its first page holds nothing"
    head = _head(data, 0)
    if head is None or head.kind != FILE:
        return f"{path} is damaged: its first page is no head of a journal"
    if head.salt != mark.salt:
        return f"{path} and data.mdb do not belong together: one is of another boot or another data directory"
    return ""


class _Ring:
    """The ring of a journal's file, with the salt and size that a mark says."""

    def __init__(self, data: bytes, mark: JournalMark) -> None:
        self._data = data
        self.size = mark.size
        self._salt = mark.salt

    def head(self, at: int) -> JournalHead | None:
        """Read the head of a batch's record at offset `at`; None if there is none of this salt.

        Raises StoreIncompatible for a kind of record that this release does not know.
        """
        head = _head(self._data, RING_AT + at)
        if head is None or head.salt != self._salt:
            return None
        if head.kind != BATCH:
            raise StoreIncompatible(f"the journal has records of kind {head.kind}: use the newer Leveret that wrote it")
        return head

    def payload(self, at: int, head: JournalHead) -> memoryview | None:
        """Read the payload of a record, which may continue at the start of the ring; None if its checksum is wrong."""
        if PAYLOAD_AT + head.size > self.size:
            return None
        begin, end = at + PAYLOAD_AT, at + PAYLOAD_AT + head.size
        whole = memoryview(self._data)[RING_AT + begin : RING_AT + min(end, self.size)]
        if end > self.size:
            whole = memoryview(bytes(whole) + self._data[RING_AT : RING_AT + end - self.size])
        return whole if crc32(whole) == head.payload_checksum else None

    def heads(self) -> Iterator[tuple[int, JournalHead]]:
        """Yield every head with this salt, at any page. Only the writer of the journal knows the salt."""
        needle, end = MAGIC + BATCH.to_bytes(4, "big") + self._salt, RING_AT + self.size
        found = self._data.find(needle, RING_AT, end)
        while found >= 0:
            at = found - RING_AT
            if at % PAGE_BYTES == 0 and (head := self.head(at)) is not None:
                yield at, head
            found = self._data.find(needle, found + 1, end)


def _chain(ring: _Ring, position: JournalPosition) -> tuple[list[JournalRecord], JournalPosition]:
    """Read the chain of records from a place on. Returns them, and the place behind the last one."""
    records: list[JournalRecord] = []
    number, at, previous = position
    while (head := ring.head(at)) is not None and (head.number, head.previous) == (number + 1, previous):
        payload = ring.payload(at, head)
        if payload is None:
            break
        records.append(JournalRecord(head.number, payload))
        number, previous = head.number, head.checksum
        at = (at + pages(PAYLOAD_AT + head.size)) % ring.size
    return records, JournalPosition(number, at, previous)


def _with_later(
    ring: _Ring, records: list[JournalRecord], position: JournalPosition, later: dict[int, int], lost: LostBatches
) -> JournalContents:
    """Contents of a damaged journal: the records before the damage, and the complete ones behind it."""
    for number, at in sorted(later.items()):
        head = ring.head(at)
        payload = None if head is None else ring.payload(at, head)
        if head is not None and payload is not None:
            records.append(JournalRecord(number, payload))
            position = JournalPosition(number, (at + pages(PAYLOAD_AT + head.size)) % ring.size, head.checksum)
    return JournalContents(records, position, lost)


def _head(data: bytes, at: int) -> JournalHead | None:
    """Read a head at offset `at` of a file; None unless a complete one is there."""
    head = data[at : at + HEADER.size]
    if len(data) < at + PAYLOAD_AT or head[:4] != MAGIC:
        return None
    (checksum,) = CHECKSUM.unpack_from(data, at + HEADER.size)
    if checksum != crc32(head):
        return None
    _magic, kind, salt, number, previous, size, payload_checksum = HEADER.unpack(head)
    return JournalHead(kind, salt, number, previous, size, payload_checksum, checksum)
