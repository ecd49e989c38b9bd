"""The journal: one file, into which a batch is written and synced by one call.

LMDB flushes a commit twice, and its transaction is most of what a small batch costs. A write of a few kilobytes into a
file that is allocated already takes the disk half as long. So a batch goes to the journal, which makes it durable; LMDB
gets it later, together with others. When LMDB has all of them the journal begins anew at its start.

Records lie one behind the other, each from the beginning of a page, so that no write touches a page of an earlier one:

    magic        4 bytes    "LvJ1"
    store        16 bytes   the store's UUID
    boot         8 bytes    in which it was written
    number       8 bytes    ascending by one from record to record, also where the journal begins anew
    size         4 bytes    of the payload
    checksum     4 bytes    CRC32 of the payload
    checksum     4 bytes    CRC32 of the 44 bytes above
    payload                 a batch, see `journal_records`

All numbers are big-endian. LMDB has the number of the last record that it needs no more. A start reads from the first
page on, as long as records are whole and their numbers follow each other, and gives LMDB those that it lacks. What lies
behind them is older: its numbers are lower. If a higher one is found behind a damaged record, that was not a write cut
short by a crash: bytes have gone bad.

Behind the records the file has a reserve, twice as large. It is cut off when the disk is full, so that LMDB has room
for what is in the journal, whatever becomes of the rest of the disk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, final

from zlib_ng.zlib_ng import crc32

from storage import synced_files

PAGE_BYTES = 4096
MAGIC = b"LvJ1"
NAME = "journal"

_HEADER = struct.Struct(">4s16sQQII")
_CHECKSUM = struct.Struct(">I")
_PAYLOAD_AT = _HEADER.size + _CHECKSUM.size
_ZEROED_BYTES = 1 << 20
"""So much is written when the file is made: the first writes into what is only allocated take twice as long."""
RESERVE = 2
"""How many times as large as the room for records the reserve is: LMDB writes more than the messages themselves."""

QUICK_SECONDS = 0.001
"""A write that takes less is quick."""


class JournalWrite(NamedTuple):
    """How many bytes one record took, and how many seconds to be on disk."""

    size: int
    seconds: float


class JournalRecord(NamedTuple):
    """A record that was read back."""

    number: int
    payload: memoryview


class JournalContents(NamedTuple):
    """What a start finds: the records of one boot, in order; and whether one among them is damaged."""

    records: list[JournalRecord]
    damaged: bool


@final
class JournalFile:
    """The file of one boot, open for writing. One thread at a time.

    `quick_writes` is how many of the latest writes, in a row, were quick.
    """

    def __init__(self, directory: Path, uuid: bytes, boot: int, size: int) -> None:
        """Make the file if need be, with room for `size` bytes of records. Raises OSError, also on a full disk."""
        self._path = directory / NAME
        self.size = size
        self.reserved = True
        self._store, self._boot = uuid, boot
        self._at = 0
        self.quick_writes = 0
        _make(self._path, size)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_DSYNC | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def fits(self, payload_bytes: int) -> bool:
        """Is there room for one more record?"""
        return self._at + _PAYLOAD_AT + payload_bytes <= self.size

    def append(self, number: int, payload: bytes) -> JournalWrite:
        """Write a record, and return when it is on disk. Raises OSError: then it may be there or not."""
        head = _HEADER.pack(MAGIC, self._store, self._boot, number, len(payload), crc32(payload))
        parts = head + _CHECKSUM.pack(crc32(head)), payload
        began = perf_counter()
        written = os.pwritev(self._descriptor, parts, self._at)
        if written < _PAYLOAD_AT + len(payload):
            synced_files.write_all(self._descriptor, b"".join(parts)[written:], self._at + written)
        size = _PAYLOAD_AT + len(payload)
        self._at += _pages(size)
        seconds = perf_counter() - began
        self.quick_writes = self.quick_writes + 1 if seconds < QUICK_SECONDS else 0
        return JournalWrite(size, seconds)

    def rewind(self) -> None:
        """Begin anew: LMDB has every record."""
        self._at = 0

    def begin_boot(self, boot: int) -> None:
        """Begin anew, in another boot: what is there counts no more."""
        self._boot, self._at = boot, 0

    def release_reserve(self) -> bool:
        """Cut the reserve off. False when that was done already, or cannot be done."""
        released, self.reserved = self.reserved and release_reserve(self._path.parent, self.size), False
        return released

    def restore_reserve(self) -> None:
        """Take the reserve again, if the disk has room."""
        try:
            synced_files.allocate(self._descriptor, self.size * (1 + RESERVE))
            os.fsync(self._descriptor)
            self.reserved = True
        except OSError:
            release_reserve(self._path.parent, self.size)  # a part of it would only be in the way


def release_reserve(directory: Path, size: int) -> bool:
    """Leave only `size` bytes of a journal, all of what may hold records. False where there are no more."""
    try:
        if (directory / NAME).stat().st_size <= size:
            return False
        os.truncate(directory / NAME, size)
    except OSError:
        return False
    return True


def read_journal(directory: Path, uuid: bytes, boot: int, after: int) -> JournalContents:
    """The records that a boot has written since the one numbered `after`. Raises OSError."""
    try:
        data = memoryview((directory / NAME).read_bytes())
    except FileNotFoundError:
        return JournalContents([], False)
    found, at, last = [], 0, None
    while (record := _record(data, at, uuid, boot)) and (last is None or record.number == last + 1):
        if record.number > after:
            found.append(record)
        last = record.number
        at += _pages(_PAYLOAD_AT + len(record.payload))
    later = list(_records_from(data, at, uuid, boot, max(after, last or 0)))
    records = found + later
    return JournalContents(records, bool(later) or (bool(records) and records[0].number != after + 1))


def _records_from(data: memoryview, at: int, uuid: bytes, boot: int, last: int) -> Iterator[JournalRecord]:
    """Whole records with higher numbers, wherever they are."""
    while at < len(data):
        record = _record(data, at, uuid, boot)
        if record is not None and record.number > last:
            yield record
            last = record.number
            at += _pages(_PAYLOAD_AT + len(record.payload))
        else:
            at += PAGE_BYTES


def _record(data: memoryview, at: int, uuid: bytes, boot: int) -> JournalRecord | None:
    """The record at a place, None unless a whole one of this store and boot is there."""
    head = data[at : at + _HEADER.size]
    if len(data) < at + _PAYLOAD_AT or head[:4] != MAGIC:
        return None
    _magic, store, of_boot, number, size, checksum = _HEADER.unpack(head)
    (head_checksum,) = _CHECKSUM.unpack_from(data, at + _HEADER.size)
    if head_checksum != crc32(head) or (store, of_boot) != (uuid, boot):
        return None
    payload = data[at + _PAYLOAD_AT : at + _PAYLOAD_AT + size]
    return JournalRecord(number, payload) if crc32(payload) == checksum and len(payload) == size else None


def _make(path: Path, size: int) -> None:
    """Have a file there with room for `size` bytes of records. Those in it are of earlier boots, and count no more."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        whole = size * (1 + RESERVE)
        if os.fstat(descriptor).st_size == whole:
            return
        os.ftruncate(descriptor, 0)
        synced_files.allocate(descriptor, whole)
        synced_files.write_all(descriptor, bytes(min(size, _ZEROED_BYTES)), 0)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, 0)
        raise
    finally:
        os.close(descriptor)
    synced_files.sync_directory(path.parent)


def _pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
