"""What a start reads of the journal: whole records, in order of their numbers. `journal_file` has the layout."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from zlib_ng.zlib_ng import crc32

from storage.journal.journal_file import CHECKSUM, HEADER, MAGIC, NAME, PAGE_BYTES, PAYLOAD_AT, pages


class JournalRecord(NamedTuple):
    """A record that was read back."""

    number: int
    payload: memoryview


class JournalContents(NamedTuple):
    """What a start finds: the records of one boot, in order; and whether one among them is missing."""

    records: list[JournalRecord]
    damaged: bool


def read_journal(directory: Path, uuid: bytes, boot: int, after: int | None) -> JournalContents:
    """The records that a boot has written since the one numbered `after`. Raises OSError.

    Where that number is lost, those that follow each other up to the last: to give LMDB again what it has changes
    nothing, where what came after it is given again as well.
    """
    try:
        data = memoryview((directory / NAME).read_bytes())
    except FileNotFoundError:
        return JournalContents([], False)
    records = sorted(_whole_records(data, uuid, boot), key=attrgetter("number"))
    if after is None:
        last = records[-1].number if records else 0
        records = [record for at, record in enumerate(records, 1 - len(records)) if record.number == last + at]
    else:
        records = [record for record in records if record.number > after]
    return JournalContents(records, bool(records) and records[-1].number != (after or 0) + len(records))


def _whole_records(data: memoryview, uuid: bytes, boot: int) -> Iterator[JournalRecord]:
    """Those of a boot, wherever they are."""
    at = 0
    while at < len(data):
        record = _record(data, at, uuid, boot)
        if record is not None:
            yield record
        at += PAGE_BYTES if record is None else pages(PAYLOAD_AT + len(record.payload))


def _record(data: memoryview, at: int, uuid: bytes, boot: int) -> JournalRecord | None:
    """The record at a place, None unless a whole one of this store and boot is there."""
    head = data[at : at + HEADER.size]
    if len(data) < at + PAYLOAD_AT or head[:4] != MAGIC:
        return None
    _magic, store, of_boot, number, size, checksum = HEADER.unpack(head)
    (head_checksum,) = CHECKSUM.unpack_from(data, at + HEADER.size)
    if head_checksum != crc32(head) or (store, of_boot) != (uuid, boot):
        return None
    payload = data[at + PAYLOAD_AT : at + PAYLOAD_AT + size]
    return JournalRecord(number, payload) if crc32(payload) == checksum and len(payload) == size else None
