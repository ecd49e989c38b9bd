"""The journal's file: a batch is written and synced by one system call.

LMDB flushes a commit twice, and its transaction is most of the cost of a small batch. A write of a few kilobytes into a
file that is already allocated takes the disk half as long. So the journal makes a batch durable, and LMDB gets it
later, together with others.

The first page names the owner of the journal. Behind it the records lie in a ring, each directly behind the one before
and from the start of a page, so that no write touches a page of an earlier record. A record that reaches the end of the
ring continues at its start.

    head of the file, and of a record:
    magic        4 bytes    "LvJ2"
    kind         4 bytes    1: head of the file, 2: a batch of messages
    salt         16 bytes   random, a new one each time a journal is opened for writing
    number       8 bytes    of the batch, ascending by one; of the head of the file: the boot
    previous     4 bytes    checksum of the record before, CRC32 of the salt in the first one
    size         4 bytes    of the payload; of the head of the file: pages of the ring
    payload      4 bytes    CRC32 of the payload
    checksum     4 bytes    CRC32 of the 44 bytes above
    payload                 a batch, see `journal_payload`

All numbers are big-endian. LMDB's mark (`journal_mark`) names the salt, the place and the number of the next record,
and the checksum of the record before it. So nothing is searched for, and bytes of another boot, of an earlier round or
inside a message are never taken for a record. The salt is stored here and in LMDB, and nowhere else.

Behind the ring the file has a reserve, twice as large. It is cut off when the disk is full, so that LMDB always has
room for the batches in the journal.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, final

from zlib_ng.zlib_ng import crc32

from storage import synced_files
from storage.journal.journal_mark import SALT_BYTES, JournalPosition
from storage.journal.processor_waits import ProcessorWaits

PAGE_BYTES = 4096
MAGIC = b"LvJ2"
NAME = "journal"
FILE, BATCH = 1, 2
"""Kinds of heads. A release refuses a journal with a kind that it does not know."""

HEADER = struct.Struct(">4sI16sQIII")
CHECKSUM = struct.Struct(">I")
PAYLOAD_AT = HEADER.size + CHECKSUM.size
RING_AT = PAGE_BYTES
"""Offset of the ring in the file, in bytes."""
_ZEROED_BYTES = 8 << 20
"""Bytes written when the file is made: first writes into blocks that are only allocated take twice as long."""
RESERVE = 2
"""Size of the reserve as a multiple of the ring's: LMDB writes more than the messages themselves."""


class JournalWrite(NamedTuple):
    """Bytes of one record, and seconds of the disk until it was on it."""

    size: int
    seconds: float


@final
class JournalFile:
    """The file of one boot, open for writing. One thread at a time.

    `at` is the offset of the next record in the ring, `previous` the checksum of the last one. Records written since
    the last released parcel are still needed.
    """

    def __init__(self, directory: Path, salt: bytes, boot: int, size: int) -> None:
        """Create the file if it is missing, with a ring of `size` bytes rounded down to pages, and write its head.

        No record in it may still be needed. Raises OSError, also on a full disk.
        """
        self._path = directory / NAME
        self.size = max(size // PAGE_BYTES, 1) * PAGE_BYTES
        self.reserved = True
        _make(self._path, self.size)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_DSYNC | os.O_CLOEXEC)
        self._waits = ProcessorWaits()
        self.begin(salt, boot)

    def begin(self, salt: bytes, boot: int) -> None:
        """Start again under another salt, which invalidates all records. Raises OSError."""
        assert len(salt) == SALT_BYTES, f"a salt of {len(salt)} bytes would be cut or padded"
        self.salt = salt
        self.at = self._needed = self._parcel_bytes = 0
        self.previous = crc32(salt)
        ring_pages = self.size // PAGE_BYTES
        synced_files.write_all(self._descriptor, _head(FILE, salt, boot, self.previous, ring_pages, 0), 0)
        synced_files.finish_write(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def fits(self, payload_bytes: int) -> bool:
        """True if the ring has room for one more record."""
        return self._needed + pages(PAYLOAD_AT + payload_bytes) <= self.size

    def append(self, number: int, payload: bytes) -> JournalWrite:
        """Write a record that fits, and return when it is on disk. Raises OSError if it may be there or not."""
        assert self.fits(len(payload)), f"a record of {len(payload)} bytes does not fit"
        head = _head(BATCH, self.salt, number, self.previous, len(payload), crc32(payload))
        size = PAYLOAD_AT + len(payload)
        assert self.at % PAGE_BYTES == 0, f"a record begins at {self.at}, within a page"
        began = perf_counter()
        if self.at + size <= self.size:
            written = os.pwritev(self._descriptor, (head, payload), RING_AT + self.at)
            if written < size:
                synced_files.write_all(self._descriptor, (head + payload)[written:], RING_AT + self.at + written)
        else:
            self._append_around_the_end(head + payload)
        synced_files.finish_write(self._descriptor)
        taken = pages(size)  # the next record gets pages of its own: a torn write of it cannot damage this one
        self.at = (self.at + taken) % self.size
        self._needed += taken
        assert self._needed <= self.size, f"{self._needed} bytes of records in a ring of {self.size}"
        (self.previous,) = CHECKSUM.unpack_from(head, HEADER.size)
        return JournalWrite(size, self._waits.seconds_of_disk(perf_counter() - began))

    def _append_around_the_end(self, record: bytes) -> None:
        before = self.size - self.at
        assert 0 < before < len(record), f"{before} bytes to the end of the ring, for a record of {len(record)}"
        synced_files.write_all(self._descriptor, record[:before], RING_AT + self.at)
        synced_files.write_all(self._descriptor, record[before:], RING_AT)

    def position(self, number: int) -> JournalPosition:
        """Return the place behind the last record, with the number of the last batch."""
        return JournalPosition(number, self.at, self.previous)

    def end_parcel(self) -> None:
        """Note the end of a parcel: LMDB is given all records until now, and later ones stay needed."""
        self._parcel_bytes = self._needed

    def release_parcel(self) -> None:
        """Free the records of the parcel: LMDB has all of them."""
        assert self._parcel_bytes <= self._needed, "a parcel holds only records that are still needed"
        self._needed -= self._parcel_bytes
        self._parcel_bytes = 0

    def release_reserve(self) -> bool:
        """Truncate the reserve. False if that was done already, or the system refuses."""
        released, self.reserved = self.reserved and release_reserve(self._path.parent, self.size), False
        return released

    def restore_reserve(self) -> None:
        """Allocate the reserve again, if the disk has room. Records may be written, and the file closed, meanwhile."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
            try:
                synced_files.allocate(descriptor, file_bytes(self.size))
                synced_files.sync(descriptor)
            finally:
                os.close(descriptor)
            self.reserved = True
        except OSError:
            release_reserve(self._path.parent, self.size)  # a part of it would be of no use


def release_reserve(directory: Path, size: int) -> bool:
    """Truncate a journal to its ring of `size` bytes. False if the reserve is gone already."""
    try:
        if (directory / NAME).stat().st_size <= RING_AT + size:
            return False
        os.truncate(directory / NAME, RING_AT + size)
    except OSError:
        return False
    return True


def file_bytes(size: int) -> int:
    """Length of the file with a ring of `size` bytes and its reserve."""
    return RING_AT + size * (1 + RESERVE)


def pages(size: int) -> int:
    """Round a number of bytes up to whole pages."""
    return -(-size // PAGE_BYTES) * PAGE_BYTES


def _head(kind: int, salt: bytes, number: int, previous: int, size: int, checksum: int) -> bytes:
    assert kind in (FILE, BATCH), f"a head of kind {kind}, which no release reads"
    head = HEADER.pack(MAGIC, kind, salt, number, previous, size, checksum)
    return head + CHECKSUM.pack(crc32(head))


def _make(path: Path, size: int) -> None:
    """Create a file with a ring of `size` bytes, or keep one of this size.

    Records of earlier boots stay in it unused.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        whole = file_bytes(size)
        if os.fstat(descriptor).st_size == whole:
            return
        os.ftruncate(descriptor, 0)
        synced_files.allocate(descriptor, whole)
        synced_files.write_all(descriptor, bytes(min(RING_AT + size, _ZEROED_BYTES)), 0)
        synced_files.sync(descriptor)
    except OSError:
        os.ftruncate(descriptor, 0)
        raise
    finally:
        os.close(descriptor)
    synced_files.sync_directory(path.parent)
