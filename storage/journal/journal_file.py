"""The journal: one file, into which a batch is written and synced by one call.

LMDB flushes a commit twice, and its transaction is most of what a small batch costs. A write of a few kilobytes into a
file that is allocated already takes the disk half as long. So a batch goes to the journal, which makes it durable; LMDB
gets it later, together with others.

Records lie one behind the other, each from the beginning of a page, so that no write touches a page of an earlier one.
Behind the last place the first is next, as far as LMDB has what is there: while it catches up with what is older, new
records go on. When it has all of them the journal begins anew at its start.

    magic        4 bytes    "LvJ1"
    store        16 bytes   the store's UUID
    boot         8 bytes    in which it was written
    number       8 bytes    ascending by one from record to record, wherever that is written
    size         4 bytes    of the payload
    checksum     4 bytes    CRC32 of the payload
    checksum     4 bytes    CRC32 of the 44 bytes above
    payload                 a batch, see `journal_records`

All numbers are big-endian. LMDB has the number of the last record that it needs no more. A start looks for whole
records at every page, and gives LMDB those that have higher numbers, in their order. If one is missing among them, that
was not a write cut short by a crash, since the next is written only after it: bytes have gone bad.

Behind the records the file has a reserve, twice as large. It is cut off when the disk is full, so that LMDB has room
for what is in the journal, whatever becomes of the rest of the disk.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, final

from zlib_ng.zlib_ng import crc32

from storage import synced_files

PAGE_BYTES = 4096
MAGIC = b"LvJ1"
NAME = "journal"

HEADER = struct.Struct(">4s16sQQII")
CHECKSUM = struct.Struct(">I")
PAYLOAD_AT = HEADER.size + CHECKSUM.size
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
        self._at = self._oldest = self._turned_at = 0
        self.quick_writes = 0
        _make(self._path, size)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_DSYNC | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def fits(self, payload_bytes: int) -> bool:
        """Is there room for one more record?"""
        return self._place(PAYLOAD_AT + payload_bytes) is not None

    def _place(self, size: int) -> int | None:
        """Where the next record of so many bytes goes: behind the last one, or at the start; never over a needed one.

        What is needed lies between the oldest record and the last one, or from the oldest on and up to the last one.
        """
        if self._at < self._oldest:
            return self._at if self._at + pages(size) < self._oldest else None
        if self._at + size <= self.size:
            return self._at
        return 0 if pages(size) < self._oldest else None

    def append(self, number: int, payload: bytes) -> JournalWrite:
        """Write a record that fits, and return when it is on disk. Raises OSError: then it may be there or not."""
        at = self._place(PAYLOAD_AT + len(payload))
        assert at is not None, f"a record of {len(payload)} bytes does not fit"
        head = HEADER.pack(MAGIC, self._store, self._boot, number, len(payload), crc32(payload))
        parts = head + CHECKSUM.pack(crc32(head)), payload
        began = perf_counter()
        written = os.pwritev(self._descriptor, parts, at)
        if written < PAYLOAD_AT + len(payload):
            synced_files.write_all(self._descriptor, b"".join(parts)[written:], at + written)
        size = PAYLOAD_AT + len(payload)
        self._at = at + pages(size)
        seconds = perf_counter() - began
        self.quick_writes = self.quick_writes + 1 if seconds < QUICK_SECONDS else 0
        return JournalWrite(size, seconds)

    def turn(self) -> None:
        """LMDB is given what is there now; the records that follow are needed after that."""
        self._turned_at = self._at

    def release_turned(self) -> None:
        """LMDB has every record from before the turn."""
        if self._at == self._turned_at:
            self.rewind()
        self._oldest = self._turned_at

    def rewind(self) -> None:
        """Begin anew: LMDB has every record."""
        self._at = self._oldest = self._turned_at = 0

    def begin_boot(self, boot: int) -> None:
        """Begin anew, in another boot: what is there counts no more."""
        self._boot = boot
        self.rewind()

    def release_reserve(self) -> bool:
        """Cut the reserve off. False when that was done already, or cannot be done."""
        released, self.reserved = self.reserved and release_reserve(self._path.parent, self.size), False
        return released

    def restore_reserve(self) -> None:
        """Take the reserve again, if the disk has room. Records may be written meanwhile, and the file let go of."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                synced_files.allocate(descriptor, self.size * (1 + RESERVE))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
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


def pages(size: int) -> int:
    """So many bytes as whole pages."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES
