"""Records in a piece: batches of messages and transactions of definitions, in the order in which they were synced.

A prefix of this order is a state that a crash could have left: a thread adds its record behind the sync, and before
the event loop hears of it. So whatever is done because of one record is behind it. Big-endian:

    kind        1 byte     1: a batch, as in the journal; 2: a transaction of definitions
    position    8 bytes    ascending by one in the chain, also over records that could not be shipped
    time        8 bytes    behind the sync, wall-clock milliseconds; never before that of the record before
    number      8 bytes    of the batch in its boot, or of the transaction: what the base has already is left out by it
    messages    4 bytes    how many the batch puts
    size        4 bytes    of the data
    data
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from storage.storage_errors import StoreCorrupt

_HEAD = struct.Struct(">BQQQII")
HEAD_BYTES = _HEAD.size


class RecordKind(IntEnum):
    """The store that a record is of."""

    BATCH = 1
    DEFINITIONS = 2


class ShippedRecord(NamedTuple):
    """One record."""

    kind: RecordKind
    position: int
    time: int
    number: int
    messages: int
    data: bytes


def pack(records: Iterable[ShippedRecord]) -> bytes:
    """Return the payload of a piece with these records."""
    parts = []
    for record in records:
        parts.append(_HEAD.pack(*record[:5], len(record.data)))
        parts.append(record.data)
    return b"".join(parts)


def unpack(payload: bytes) -> Iterator[ShippedRecord]:
    """Yield the records of a payload. Raises StoreCorrupt for one that this release did not write."""
    at = 0
    while at < len(payload):
        try:
            kind, position, time, number, messages, size = _HEAD.unpack_from(payload, at)
            at += HEAD_BYTES + size
            yield ShippedRecord(RecordKind(kind), position, time, number, messages, payload[at - size : at])
        except (struct.error, ValueError) as error:
            raise StoreCorrupt(f"a shipped record cannot be read ({error})") from error
