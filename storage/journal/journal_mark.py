"""The mark of the journal, a record in LMDB: which journal belongs to it, and up to which batch LMDB has applied it.

It is written in the same transaction as the batches that it counts. So a start knows where the first record lies that
LMDB lacks, which salt, number and checksum it must have, and whether there may be one at all.
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
    """A place in the ring: number of the batch before it, offset of the next record, checksum of the last one."""

    number: int
    at: int
    previous: int


class JournalMark(NamedTuple):
    """The journal at one commit. `size`: bytes of its ring; `time`: of the commit, wall-clock milliseconds."""

    state: int
    salt: bytes
    size: int
    position: JournalPosition
    time: int

    @property
    def needs_journal(self) -> bool:
        """True if the journal may hold batches that LMDB lacks."""
        return self.state == OPEN

    @property
    def moment(self) -> str:
        """Time of the commit in UTC, as text."""
        return datetime.fromtimestamp(self.time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def encode(self) -> bytes:
        """Return the record's bytes."""
        assert len(self.salt) == SALT_BYTES, f"a salt of {len(self.salt)} bytes would be cut or padded"
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
"""The mark at the start of a boot: no journal belongs to it."""
