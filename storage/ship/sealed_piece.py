"""Sealed pieces: the files that shipping writes at its target, each once.

A *chain* is all pieces of one boot: a base, the records behind it, and later bases among the records. Each piece has
the digest of the one before, so one that is missing, damaged, or of another chain is noticed. Big-endian:

    magic       4 bytes    "LvSP"
    version     1 byte     2
    kind        1 byte     see PieceKind
    store       16 bytes   the store's UUID
    timeline    8 bytes    0: never restored
    boot        8 bytes
    number      8 bytes    ascending by one in the chain, from 1
    first       8 bytes    of records: position of the first; of a part of a base: number of the base's first piece
    time        8 bytes    when it was sealed, wall-clock milliseconds
    size        4 bytes    of the payload
    previous    32 bytes   digest of the piece before; of the first piece, SHA-256 of the chain's name
    payload's   4 bytes    CRC32 of the payload; in version 1, 32 bytes of SHA-256
    checksum    4 bytes    CRC32 of the bytes above
    payload

The digest of a piece is the SHA-256 of its bytes before the payload. All this is against damage, and CRC32 is what the
journal has against it, too. Digests do not keep anybody who can write at the target from making a chain of their own.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from zlib_ng.zlib_ng import crc32

from storage.storage_errors import StoreCorrupt

MAGIC = b"LvSP"
VERSION = 2
DIGEST_BYTES = 32

_CHECKSUM = struct.Struct(">I")


class _Layout(NamedTuple):
    """The head of a version, and what it has of a payload against damage."""

    head: struct.Struct
    checked: Callable[[bytes], bytes]


def _crc32(data: bytes) -> bytes:
    return _CHECKSUM.pack(crc32(data))


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


_LAYOUTS = {
    1: _Layout(struct.Struct(">4sBB16sQQQQQI32s32s"), _sha256),
    VERSION: _Layout(struct.Struct(">4sBB16sQQQQQI32s4s"), _crc32),
}


class PieceKind(IntEnum):
    """The contents of a piece. The value is in the piece, the name in lower case at the end of its file's name."""

    MESSAGES = 1
    """A part of a base: bytes of data.mdb."""
    DEFINITIONS = 2
    """A part of a base: bytes of definitions.sqlite."""
    BASE = 3
    """The end of a base: from here on it can be restored."""
    RECORDS = 4
    """Records, see `shipped_records`."""


class StoreName(NamedTuple):
    """The store, and the boot of it, that a chain is of."""

    uuid: bytes
    timeline: int
    boot: int


class Piece(NamedTuple):
    """A piece without its payload."""

    kind: PieceKind
    store: StoreName
    number: int
    first: int
    time: int
    previous: bytes


class OpenedPiece(NamedTuple):
    """A piece that was read, its payload, and its digest."""

    piece: Piece
    payload: bytes
    digest: bytes


def seal(piece: Piece, payload: bytes) -> tuple[bytes, bytes]:
    """Return a piece's bytes before the payload, and its digest."""
    assert len(piece.previous) == DIGEST_BYTES, f"a digest of {len(piece.previous)} bytes would be cut or padded"
    kind, store, number, first, time, previous = piece
    layout = _LAYOUTS[VERSION]
    checked = layout.checked(payload)
    packed = layout.head.pack(MAGIC, VERSION, kind, *store, number, first, time, len(payload), previous, checked)
    header = packed + _crc32(packed)
    return header, _sha256(header)


def unseal(data: bytes, name: str) -> OpenedPiece:
    """Read a piece. Raises StoreCorrupt if it is not whole; `name` is for its text."""
    layout = _layout(data, name)
    at = layout.head.size
    packed, header, payload = data[:at], data[: at + _CHECKSUM.size], data[at + _CHECKSUM.size :]
    if header[at:] != _crc32(packed):
        raise StoreCorrupt(f"{name} is damaged: the checksum of its head is wrong")
    _magic, version, kind, uuid, timeline, boot, number, first, time, size, previous, checked = layout.head.unpack(
        packed
    )
    if kind not in PieceKind.__members__.values():
        raise _later(name, version, kind)
    if len(payload) != size:
        raise StoreCorrupt(f"{name} is cut short: {len(payload)} bytes of {size}")
    if layout.checked(payload) != checked:
        raise StoreCorrupt(f"{name} is damaged: the checksum of its payload is wrong")
    piece = Piece(PieceKind(kind), StoreName(uuid, timeline, boot), number, first, time, previous)
    return OpenedPiece(piece, payload, _sha256(header))


def _layout(data: bytes, name: str) -> _Layout:
    """Return the layout of a piece. Raises StoreCorrupt if it is none, or of a version that is not known here."""
    if data[:4] != MAGIC or len(data) < _LAYOUTS[VERSION].head.size:
        raise StoreCorrupt(f"{name} is no sealed piece, or is cut short at {len(data)} bytes")
    version, kind = data[4:6]
    if version not in _LAYOUTS:
        raise _later(name, version, kind)
    return _LAYOUTS[version]


def _later(name: str, version: int, kind: int) -> StoreCorrupt:
    what = f"version {version}, kind {kind}"
    return StoreCorrupt(f"{name} is damaged, or of a later release ({what}): restore with that one")


def digest_before_first(chain: str) -> bytes:
    """Return what the first piece of a chain has in place of the digest of a piece before it."""
    return hashlib.sha256(chain.encode()).digest()


# Names at the target

_MARK = ".mark"


class ChainName(NamedTuple):
    """The name of a chain, in parts. Later boots come later in the alphabet.

    `store` is the beginning of the store's UUID; `salt` tells apart boots of equal numbers, after two restores.
    """

    boot: int
    timeline: int
    store: str
    salt: str

    def __str__(self) -> str:
        return f"{self.boot:012d}-{self.timeline:012d}-{self.store}-{self.salt}"


def chain_name(store: StoreName, salt: bytes) -> ChainName:
    """Return the name of a boot's chain."""
    return ChainName(store.boot, store.timeline, store.uuid.hex()[:8], salt.hex())


def parse_chain_name(name: str) -> ChainName | None:
    """Return the parts of a chain's name; None for a name that is none."""
    parts = name.split("-")
    if len(parts) != len(ChainName._fields) or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return None
    return ChainName(int(parts[0]), int(parts[1]), parts[2], parts[3])


def piece_name(number: int, kind: PieceKind) -> str:
    """Return the name of a piece in its chain."""
    return f"{number:012d}.{kind.name.lower()}"


def parse_piece_name(name: str) -> tuple[int, PieceKind] | None:
    """Return number and kind of a piece by its name; None for a name that is none."""
    number, _, kind = name.partition(".")
    known = kind.upper() in PieceKind.__members__ and kind.islower()
    return (int(number), PieceKind[kind.upper()]) if number.isdecimal() and known else None


def mark_name(ordinal: int) -> str:
    """Return the name of the mark of a chain's base, which has the number of the piece that ends it, in decimal.

    It is put just before that piece. Bases are counted from 1.
    """
    return f"{ordinal:012d}{_MARK}"


def parse_mark_name(name: str) -> int | None:
    """Return the ordinal of a base by the name of its mark; None for a name that is none."""
    ordinal = name.removesuffix(_MARK)
    return int(ordinal) if ordinal != name and ordinal.isdecimal() else None
