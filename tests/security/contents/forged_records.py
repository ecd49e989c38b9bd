"""Records of the store as an attacker makes them: from nothing, by the published format, and from real ones.

A publisher needs no access for the first: the API and /metrics serve the store's UUID, the boot and the ids of queues
are small numbers. Real records are found by their magic; where they have their checksums is worked out from the bytes,
so that another header than the one built here is forged as well.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from broker.wire.properties import BasicProperties, encode_header

PAGE_BYTES = 4096
MAGIC = re.compile(rb"LvJ[0-9]")
FORGED = b"forged by a content"
NEVER = -1
"""A time that no store writes."""
LARGE_NUMBER = 1 << 33
HEAD_BYTES_MAX = 160
_HEADER = struct.Struct(">4s16sQQII")
_WORD, _LONG = struct.Struct(">I"), struct.Struct(">Q")
_COUNTED_MAX = 1 << 34
"""A number of eight bytes up to here is taken for one that counts something."""


def record(uuid: bytes, boot: int, number: int, payload: bytes) -> bytes:
    """A record of format `LvJ1`, sound in itself."""
    head = _HEADER.pack(b"LvJ1", uuid, boot, number, len(payload), crc32(payload))
    return head + _WORD.pack(crc32(head)) + payload


def batch(
    queue_id: int,
    boot: int,
    *,
    time: int = 0,
    purged: bool = True,
    deleted: bool = False,
    settled: Sequence[int] = (),
) -> bytes:
    """A payload that empties a queue and puts one message into it, which nobody has published."""
    position = (boot << 40) + (1 << 30)
    header = encode_header(len(FORGED), BasicProperties(delivery_mode=2))
    put = (position, time, 1, b"\x00\x01q", header, FORGED, 0)
    lane = (queue_id, 0, (1, len(FORGED), 0, 0), settled, (), (), [put])
    purges = [(queue_id, 0, position, ())] if purged else []
    return msgspec.msgpack.encode(([lane], purges, [queue_id] if deleted else [], [], 0, {}))


class Layout(NamedTuple):
    """Places of a real record's protection: offsets within the record."""

    head_checksum_at: int
    """Here, of what is before."""
    payload_at: int
    size_at: int
    payload_checksum_at: int
    seeded_by: tuple[int, int]
    """The payload's checksum goes on from that of these bytes of the header: none, the salt, the header."""

    def payload_checksum(self, head: bytes | bytearray, payload: bytes) -> int:
        """Return the checksum of a payload behind a header."""
        begin, end = self.seeded_by
        return crc32(payload, crc32(head[begin:end]))

    def protects(self, data: bytes) -> bool:
        """True if a record begins here that has its checksums in these places."""
        if len(data) < self.payload_at or self._word(data, self.head_checksum_at) != crc32(
            data[: self.head_checksum_at]
        ):
            return False
        payload = self.payload(data)
        return self._word(data, self.payload_checksum_at) == self.payload_checksum(data, payload)

    def payload(self, data: bytes) -> bytes:
        """The payload of a record that begins here."""
        return data[self.payload_at : self.payload_at + self._word(data, self.size_at)]

    @staticmethod
    def _word(data: bytes, at: int) -> int:
        return int(_WORD.unpack_from(data, at)[0])


class FoundRecord(NamedTuple):
    """A real record, and how it is protected."""

    data: bytes
    layout: Layout

    @property
    def counters_at(self) -> list[int]:
        """Return the places in the header with eight-byte numbers that count something: boot and number are among
        them."""
        end = self.layout.head_checksum_at - _LONG.size
        return [at for at in range(4, end + 1, 4) if 0 < _LONG.unpack_from(self.data, at)[0] < _COUNTED_MAX]

    @property
    def payload(self) -> bytes:
        """The payload that it protects."""
        return self.data[self.layout.payload_at :]

    def forged(self, counters: Sequence[int], payload: bytes) -> bytes:
        """Return the record with its counters raised by `counters`, another payload, and checksums that are right."""
        layout = self.layout
        head = bytearray(self.data[: layout.payload_at])
        for at, raised in zip(self.counters_at, counters, strict=False):
            _LONG.pack_into(head, at, (_LONG.unpack_from(head, at)[0] + raised) % (1 << 64))
        _WORD.pack_into(head, layout.size_at, len(payload))
        _WORD.pack_into(head, layout.payload_checksum_at, layout.payload_checksum(head, payload))
        _WORD.pack_into(head, layout.head_checksum_at, crc32(head[: layout.head_checksum_at]))
        return bytes(head) + payload


def found_records(data: bytes) -> Iterator[FoundRecord]:
    """Every whole record that begins a page."""
    known: Layout | None = None
    for at in range(0, len(data), PAGE_BYTES):
        if MAGIC.match(data, at):
            rest = data[at:]
            if known is None or not known.protects(rest):
                known = _layout(rest) or known
            if known is not None and known.protects(rest):
                yield FoundRecord(rest[: known.payload_at + len(known.payload(rest))], known)


def _layout(data: bytes) -> Layout | None:
    ends = range(8, min(HEAD_BYTES_MAX, len(data) - _WORD.size))
    sound = (at for at in ends if _WORD.unpack_from(data, at)[0] == crc32(data[:at]))
    return next((layout for at in sound if (layout := _payload_layout(data, at)) is not None), None)


def _payload_layout(data: bytes, head_checksum_at: int) -> Layout | None:
    payload_at = head_checksum_at + _WORD.size
    words = {at: _WORD.unpack_from(data, at)[0] for at in range(4, head_checksum_at - _WORD.size + 1)}
    sizes = {at: size for at, size in words.items() if 0 < size <= len(data) - payload_at}
    slices = [(begin, end) for begin in (0, 4) for end in range(begin + 4, head_checksum_at + 1, 4)]
    for seeded_by in [(0, 0), *slices]:
        seed = crc32(data[slice(*seeded_by)])
        for size_at, size in sizes.items():
            checksum = crc32(data[payload_at : payload_at + size], seed)
            places = [at for at, word in words.items() if word == checksum and abs(at - size_at) >= _WORD.size]
            if places:
                return Layout(head_checksum_at, payload_at, size_at, places[0], seeded_by)
    return None


class Forger:
    """Forged records for one store: every shape that a start could take for its own. `boot` is the present one."""

    def __init__(self, uuid: bytes, queue_ids: Sequence[int]) -> None:
        self._uuid = uuid
        self._queue_ids = queue_ids

    def from_nothing(self, boot: int, dice: Any) -> bytes:
        """A record of this boot, or of one of the next two."""
        of_boot = boot + dice.choice((0, 0, 1, 1, 2))
        number = dice.choice((1, 2, 7, 40, 300, LARGE_NUMBER, LARGE_NUMBER, (1 << 64) - 1))
        return record(self._uuid, of_boot, number, self.payload(of_boot, dice))

    def from_real(self, found: FoundRecord, dice: Any) -> bytes:
        """A record of an earlier boot, made one of another by raising its numbers."""
        counters = [dice.choice((0, 1, 1, 2, 3, LARGE_NUMBER)) for _ in found.counters_at]
        return found.forged(counters, self.payload(1, dice))

    def payload(self, boot: int, dice: Any) -> bytes:
        """Return a payload that would act if the record were taken."""
        queue_id = dice.choice(self._queue_ids)
        kind = dice.randrange(8)
        if kind < 4:
            return batch(queue_id, boot)
        if kind == 4:
            return batch(queue_id, boot, time=NEVER)
        if kind == 5:
            return batch(queue_id, boot, purged=False, settled=tuple((1 << 40) + at for at in range(1, 8)))
        if kind == 6:
            return batch(queue_id, boot, deleted=True)
        return b"\x90"
