"""The origin of a store that was restored from a backup, and the number of its timeline.

The backup and what came after it in the old store are two histories. Nothing that the old one has given out may be
given out again for something else: numbers of boots, and with them positions of messages and numbers of events;
offsets of streams. So the first boot after a restore has a number above all that are known of the old history, and
above the number of 4-minute periods since 2020, for those that are not known. That is the timeline's number, too.
Streams that were in the backup go on at an offset far above its highest.
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
"""A restored stream goes on at one of so many multiples of the stride: two restores of one backup differ in it, unless
their timelines are 32 apart."""

_ORIGIN = struct.Struct(">B16sQQQ")


class StoreOrigin(NamedTuple):
    """A store's last restore. `pending`: this is a backup that was not opened yet. `backup`: random, drawn for each.

    Streams with ids up to `queue_ids` were in it, and go on at `offset` at least. A timeline of 0: nothing was ever
    restored.
    """

    pending: bool
    backup: bytes
    timeline: int
    queue_ids: int
    offset: int

    def encode(self) -> bytes:
        """The record's bytes."""
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
        """The lowest offset that a stream may give out next."""
        return self.offset if queue_id <= self.queue_ids else 0


NEVER_RESTORED = StoreOrigin(False, bytes(BACKUP_BYTES), 0, 0, 0)


def first_boot(*known: int) -> int:
    """The number of a timeline's first boot, above all that are known of others."""
    return max(*known, int(time.time() - YEAR_2020) // PERIOD_SECONDS) + 1


def next_offset(highest: int, timeline: int) -> int:
    """The offset at which a timeline's streams go on, of which none has reached `highest`."""
    return (-(-highest // OFFSET_STRIDE) + 1 + timeline % _STRIDES) * OFFSET_STRIDE


def read_origin(txn: lmdb.Transaction[Any]) -> StoreOrigin:
    """A store's origin. One that is damaged counts as none: streams and boots go on where their records say."""
    record = txn.get(ORIGIN)
    try:
        return NEVER_RESTORED if record is None else StoreOrigin.decode(record)
    except StoreCorrupt:
        return NEVER_RESTORED
