"""The journal: one file, into which a batch is written and synced by one call.

LMDB flushes a commit twice, and its transaction is most of what a small batch costs. A write of a few kilobytes into a
file that is allocated already takes the disk half as long. So a batch goes to the journal, which makes it durable; LMDB
gets it later, together with others.

The first page says whose journal it is. Behind it the records lie in a ring, each directly behind the one before and
from the beginning of a page, so that no write touches a page of an earlier one. A record that reaches the end of the
ring goes on at its start.

    head of the file, and of a record:
    magic        4 bytes    "LvJ2"
    kind         4 bytes    1: head of the file, 2: a batch of messages
    salt         16 bytes   random, drawn anew each time a journal is opened for writing
    number       8 bytes    of the batch, ascending by one; of the head of the file: the boot
    previous     4 bytes    checksum of the record before, CRC32 of the salt in the first one
    size         4 bytes    of the payload; of the head of the file: pages of the ring
    payload      4 bytes    CRC32 of the payload
    checksum     4 bytes    CRC32 of the 44 bytes above
    payload                 a batch, see `journal_records`

All numbers are big-endian. What counts as a record is known before it is read: LMDB's mark (`journal_mark`) names the
salt, the place, the number and the checksum of the record before. So nothing is searched for, and a record of another
boot, of an earlier round or inside a message is none. The salt is nowhere but here and in LMDB.

Behind the ring the file has a reserve, twice as large. It is cut off when the disk is full, so that LMDB has room
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
from storage.journal.journal_mark import JournalPosition

PAGE_BYTES = 4096
MAGIC = b"LvJ2"
NAME = "journal"
FILE, BATCH = 1, 2
"""Kinds of heads. A release that does not know a kind refuses the journal."""

HEADER = struct.Struct(">4sI16sQIII")
CHECKSUM = struct.Struct(">I")
PAYLOAD_AT = HEADER.size + CHECKSUM.size
RING_AT = PAGE_BYTES
"""Offset of the ring in the file, in bytes."""
_ZEROED_BYTES = 8 << 20
"""So much is written when the file is made: the first writes into what is only allocated take twice as long."""
RESERVE = 2
"""Size of the reserve as a multiple of the ring's: LMDB writes more than the messages themselves."""


class JournalWrite(NamedTuple):
    """How many bytes one record took, and how many seconds to be on disk."""

    size: int
    seconds: float


@final
class JournalFile:
    """The file of one boot, open for writing. One thread at a time.

    `at` is where the next record begins in the ring, `previous` the checksum of the last one. Needed is what was
    written since the last parcel that was released.
    """

    def __init__(self, directory: Path, salt: bytes, boot: int, size: int) -> None:
        """Make the file if need be, with a ring of `size` bytes, whole pages of it, and have its head on disk.

        Nothing that is in it may be needed any more. Raises OSError, also on a full disk.
        """
        self._path = directory / NAME
        self.size = max(size // PAGE_BYTES, 1) * PAGE_BYTES
        self.reserved = True
        _make(self._path, self.size)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_DSYNC | os.O_CLOEXEC)
        self.begin(salt, boot)

    def begin(self, salt: bytes, boot: int) -> None:
        """Begin anew under another salt: what is there counts no more. Raises OSError."""
        self.salt = salt
        self.at = self._needed = self._parcel_bytes = 0
        self.previous = crc32(salt)
        ring_pages = self.size // PAGE_BYTES
        synced_files.write_all(self._descriptor, _head(FILE, salt, boot, self.previous, ring_pages, 0), 0)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def fits(self, payload_bytes: int) -> bool:
        """Is there room for one more record?"""
        return self._needed + pages(PAYLOAD_AT + payload_bytes) <= self.size

    def append(self, number: int, payload: bytes) -> JournalWrite:
        """Write a record that fits, and return when it is on disk. Raises OSError: then it may be there or not."""
        assert self.fits(len(payload)), f"a record of {len(payload)} bytes does not fit"
        head = _head(BATCH, self.salt, number, self.previous, len(payload), crc32(payload))
        size = PAYLOAD_AT + len(payload)
        began = perf_counter()
        if self.at + size <= self.size:
            written = os.pwritev(self._descriptor, (head, payload), RING_AT + self.at)
            if written < size:
                synced_files.write_all(self._descriptor, (head + payload)[written:], RING_AT + self.at + written)
        else:
            self._append_around_the_end(head + payload)
        taken = pages(size)
        self.at = (self.at + taken) % self.size
        self._needed += taken
        (self.previous,) = CHECKSUM.unpack_from(head, HEADER.size)
        return JournalWrite(size, perf_counter() - began)

    def _append_around_the_end(self, record: bytes) -> None:
        before = self.size - self.at
        synced_files.write_all(self._descriptor, record[:before], RING_AT + self.at)
        synced_files.write_all(self._descriptor, record[before:], RING_AT)

    def position(self, number: int) -> JournalPosition:
        """The place behind the last record, under the number of the last batch."""
        return JournalPosition(number, self.at, self.previous)

    def end_parcel(self) -> None:
        """LMDB is given what is there now, as one parcel; the records that follow are needed after that."""
        self._parcel_bytes = self._needed

    def release_parcel(self) -> None:
        """LMDB has every record of the parcel."""
        self._needed -= self._parcel_bytes
        self._parcel_bytes = 0

    def release_reserve(self) -> bool:
        """Cut the reserve off. False when that was done already, or cannot be done."""
        released, self.reserved = self.reserved and release_reserve(self._path.parent, self.size), False
        return released

    def restore_reserve(self) -> None:
        """Take the reserve again, if the disk has room. Records may be written meanwhile, and the file let go of."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                synced_files.allocate(descriptor, file_bytes(self.size))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self.reserved = True
        except OSError:
            release_reserve(self._path.parent, self.size)  # a part of it would only be in the way


def release_reserve(directory: Path, size: int) -> bool:
    """Leave only the ring of a journal, which has `size` bytes. False where there is no more."""
    try:
        if (directory / NAME).stat().st_size <= RING_AT + size:
            return False
        os.truncate(directory / NAME, RING_AT + size)
    except OSError:
        return False
    return True


def file_bytes(size: int) -> int:
    """The file's length with a ring of `size` bytes and its reserve."""
    return RING_AT + size * (1 + RESERVE)


def pages(size: int) -> int:
    """Round a number of bytes up to whole pages."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _head(kind: int, salt: bytes, number: int, previous: int, size: int, checksum: int) -> bytes:
    head = HEADER.pack(MAGIC, kind, salt, number, previous, size, checksum)
    return head + CHECKSUM.pack(crc32(head))


def _make(path: Path, size: int) -> None:
    """Have a file there with a ring of `size` bytes. What is in it is of earlier boots, and counts no more."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        whole = file_bytes(size)
        if os.fstat(descriptor).st_size == whole:
            return
        os.ftruncate(descriptor, 0)
        synced_files.allocate(descriptor, whole)
        synced_files.write_all(descriptor, bytes(min(RING_AT + size, _ZEROED_BYTES)), 0)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, 0)
        raise
    finally:
        os.close(descriptor)
    synced_files.sync_directory(path.parent)
