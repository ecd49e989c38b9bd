"""LMDB's note of the journal: which journal goes with it, and how far LMDB has it.

It is written with each commit of batches, in the same transaction. So a start knows where the first record lies that
LMDB lacks, what it must say, and whether there may be one at all.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import NamedTuple

from storage.record_frame import frame, unframe
from storage.storage_errors import StoreCorrupt

SALT_BYTES = 16

FRESH, OPEN, CLOSED = 0, 1, 2
"""States: no batch was written in this boot yet; the journal may hold what LMDB lacks; LMDB has everything."""

_MARK = struct.Struct(">B16sQQQIQ")


class JournalPosition(NamedTuple):
    """The place behind a batch: its number, where the next record begins, the checksum of the record before that."""

    number: int
    at: int
    previous: int


class JournalMark(NamedTuple):
    """The journal as of one commit. `size`: of its ring, in bytes; `time`: of the commit, wall-clock milliseconds."""

    state: int
    salt: bytes
    size: int
    position: JournalPosition
    time: int

    @property
    def needs_journal(self) -> bool:
        """The journal may hold batches that LMDB lacks."""
        return self.state == OPEN

    @property
    def moment(self) -> str:
        """The time of the commit for an operator, in UTC."""
        return datetime.fromtimestamp(self.time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def encode(self) -> bytes:
        """The record's bytes."""
        number, at, previous = self.position
        return frame(_MARK.pack(self.state, self.salt, self.size, number, at, previous, self.time))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> JournalMark:
        """Read the record. Raises StoreCorrupt."""
        payload = unframe(data, "the mark of the journal")
        if len(payload) != _MARK.size:
            raise StoreCorrupt(f"the mark of the journal has {len(payload)} bytes instead of {_MARK.size}")
        state, salt, size, number, at, previous, time = _MARK.unpack(payload)
        return cls(state, salt, size, JournalPosition(number, at, previous), time)


NO_BATCH_YET = JournalMark(FRESH, bytes(SALT_BYTES), 0, JournalPosition(0, 0, 0), 0)
"""The mark that a boot begins with: nothing in any journal belongs to it."""
