"""The origin of a store that was restored from a backup, and the number of its timeline.

A restored backup, and the old store after the backup was made, are two histories. Numbers that the old one has given
out may not be given out again: numbers of boots, and with them positions of messages and numbers of events; offsets of
streams. So the first boot after a restore has a number above all known numbers of the old history and, for unknown
ones, above the number of 4-minute periods since 2020. That is also the number of the timeline. Streams of the backup
continue at an offset far above their highest.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from storage.batch import OFFSET_STRIDE
from storage.messages.keys import ORIGIN
from storage.record_frame import frame, unframe
from storage.storage_errors import StoreCorrupt

if TYPE_CHECKING:
    import lmdb

BACKUP_BYTES = 16
PERIOD_SECONDS = 240
YEAR_2020 = 1_577_836_800

_STRIDES = 32
"""A restored stream continues at one of 32 multiples of the stride: two restores of one backup differ, unless their
timelines are a multiple of 32 apart."""

_ORIGIN = struct.Struct(">B16sQQQ")


class StoreOrigin(NamedTuple):
    """A store's last restore. `pending`: a backup that was not opened yet. `backup`: a random id for each backup.

    Streams with ids up to `queue_ids` were in it, and continue at `offset` or above. Timeline 0: never restored.
    """

    pending: bool
    backup: bytes
    timeline: int
    queue_ids: int
    offset: int

    def encode(self) -> bytes:
        """Return the record's bytes."""
        assert len(self.backup) == BACKUP_BYTES, f"an id of {len(self.backup)} bytes would be cut or padded"
        return frame(_ORIGIN.pack(*self))

    @classmethod
    def decode(cls, data: bytes | memoryview) -> StoreOrigin:
        """Read the record. Raises StoreCorrupt."""
        payload = unframe(data, "the origin of the store")
        if len(payload) != _ORIGIN.size:
            raise StoreCorrupt(f"the origin of the store has {len(payload)} bytes instead of {_ORIGIN.size}")
        pending, backup, timeline, queue_ids, offset = _ORIGIN.unpack(payload)
        return cls(bool(pending), backup, timeline, queue_ids, offset)

    def first_offset(self, queue_id: int) -> int:
        """Lowest offset that a stream may give out next."""
        return self.offset if queue_id <= self.queue_ids else 0


NEVER_RESTORED = StoreOrigin(False, bytes(BACKUP_BYTES), 0, 0, 0)


def first_boot(*known: int) -> int:
    """Number of a timeline's first boot, above all `known` numbers."""
    return max(*known, int(time.time() - YEAR_2020) // PERIOD_SECONDS) + 1


def next_offset(highest: int, timeline: int) -> int:
    """Offset at which a timeline's streams continue; none of them has reached `highest`."""
    offset = (-(-highest // OFFSET_STRIDE) + 1 + timeline % _STRIDES) * OFFSET_STRIDE
    assert offset > highest, f"offset {offset} may have been given out before: {highest} was"
    return offset


def read_origin(txn: lmdb.Transaction[Any]) -> StoreOrigin:
    """Read a store's origin.

    A damaged one counts as NEVER_RESTORED: streams and boots continue after their own records.
    """
    record = txn.get(ORIGIN)
    try:
        return NEVER_RESTORED if record is None else StoreOrigin.decode(record)
    except StoreCorrupt:
        return NEVER_RESTORED
