"""The first format of the journal, "LvJ1": read once, when a store of an old release is opened.

    magic        4 bytes    "LvJ1"
    store        16 bytes   the store's UUID
    boot         8 bytes    of the writer
    number       8 bytes    ascending by one from record to record, from 1 in each boot
    size         4 bytes    of the payload
    checksum     4 bytes    CRC32 of the payload
    checksum     4 bytes    CRC32 of the 44 bytes above
    payload                 a batch, see `journal_payload`

Records begin at multiples of 4,096 bytes, from 0 on. LMDB has the number of the last record of a boot that it has
applied; complete records with higher numbers are searched for at every page.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from zlib_ng.zlib_ng import crc32

from storage.journal.journal_file import NAME, PAGE_BYTES, pages
from storage.journal.journal_reader import JournalRecord

MAGIC = b"LvJ1"

_HEADER = struct.Struct(">4s16sQQII")
_CHECKSUM = struct.Struct(">I")
_PAYLOAD_AT = _HEADER.size + _CHECKSUM.size


class FirstFormatContents(NamedTuple):
    """The records of one boot, in order, one for each number. `end`: offset behind the last one.

    `damaged`: the first number without a record, or with several; None if there is no such number.
    """

    records: list[JournalRecord]
    damaged: int | None
    end: int


def read_first_format(directory: Path, uuid: bytes, boot: int, after: int | None) -> FirstFormatContents:
    """Read the records that a boot has written after number `after`. Raises OSError.

    If that number is lost (None), read the unbroken run that ends with the last record: applying a record again changes
    nothing as long as all later ones are applied again too.
    """
    try:
        data = memoryview((directory / NAME).read_bytes())
    except FileNotFoundError:
        return FirstFormatContents([], None, 0)
    found = sorted(_whole_records(data, uuid, boot), key=attrgetter("number"))
    end = max((at + pages(_PAYLOAD_AT + len(payload)) for _number, payload, at in found), default=0)
    # A message may contain records like these: nothing tells which of two with one number is the journal's own.
    records = [next(same) for _number, same in groupby(found, attrgetter("number"))]
    if after is None:
        last = records[-1].number if records else 0
        records = [record for at, record in enumerate(records, 1 - len(records)) if record.number == last + at]
    else:
        records = [record for record in records if record.number > after]
    damaged = _first_damaged((after or 0) + 1, [record.number for record in found if record.number > (after or 0)])
    return FirstFormatContents([JournalRecord(each.number, each.payload) for each in records], damaged, end)


def _first_damaged(first: int, numbers: list[int]) -> int | None:
    """Return the first number from `first` on that is missing among ascending `numbers`, or is there twice."""
    for expected, number in enumerate(numbers, first):
        if number != expected:
            return min(number, expected)
    return None


class _Record(NamedTuple):
    number: int
    payload: memoryview
    at: int


def _whole_records(data: memoryview, uuid: bytes, boot: int) -> Iterator[_Record]:
    """Yield the complete records of a boot, in the order of the file."""
    at = 0
    while at < len(data):
        record = _record(data, at, uuid, boot)
        if record is not None:
            yield record
        at += PAGE_BYTES if record is None else pages(_PAYLOAD_AT + len(record.payload))


def _record(data: memoryview, at: int, uuid: bytes, boot: int) -> _Record | None:
    """Read the record at offset `at`; None unless a complete one of this store and boot is there."""
    head = data[at : at + _HEADER.size]
    if len(data) < at + _PAYLOAD_AT or head[:4] != MAGIC:
        return None
    _magic, store, of_boot, number, size, checksum = _HEADER.unpack(head)
    (head_checksum,) = _CHECKSUM.unpack_from(data, at + _HEADER.size)
    if head_checksum != crc32(head) or (store, of_boot) != (uuid, boot):
        return None
    payload = data[at + _PAYLOAD_AT : at + _PAYLOAD_AT + size]
    return _Record(number, payload, at) if crc32(payload) == checksum and len(payload) == size else None
