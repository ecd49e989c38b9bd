"""Sealed pieces: the files that shipping writes at its target, each once.

A *chain* is all pieces of one boot: a base, the records behind it, and later bases among the records. Each piece has
the digest of the one before, so one that is missing, damaged, or of another chain is noticed. Big-endian:

    magic       4 bytes    "LvSP"
    version     1 byte     1
    kind        1 byte     see PieceKind
    store       16 bytes   the store's UUID
    timeline    8 bytes    0: never restored
    boot        8 bytes
    number      8 bytes    ascending by one in the chain, from 1
    first       8 bytes    of records: position of the first; of a part of a base: number of the base's first piece
    time        8 bytes    when it was sealed, wall-clock milliseconds
    size        4 bytes    of the payload
    previous    32 bytes   digest of the piece before; of the first piece, SHA-256 of the chain's name
    payload's   32 bytes   SHA-256 of the payload
    checksum    4 bytes    CRC32 of the 126 bytes above
    payload

The digest of a piece is the SHA-256 of its 130 bytes before the payload.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum
from typing import NamedTuple

from zlib_ng.zlib_ng import crc32

from storage.storage_errors import StoreCorrupt

MAGIC = b"LvSP"
VERSION = 1
DIGEST_BYTES = 32

_HEADER = struct.Struct(">4sBB16sQQQQQI32s32s")
_CHECKSUM = struct.Struct(">I")
HEADER_BYTES = _HEADER.size + _CHECKSUM.size


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
    checked = hashlib.sha256(payload).digest()
    fields = MAGIC, VERSION, kind, *store, number, first, time, len(payload), previous, checked
    packed = _HEADER.pack(*fields)
    header = packed + _CHECKSUM.pack(crc32(packed))
    return header, hashlib.sha256(header).digest()


def unseal(data: bytes, name: str) -> OpenedPiece:
    """Read a piece. Raises StoreCorrupt if it is not whole; `name` is for its text."""
    if len(data) < HEADER_BYTES or data[:4] != MAGIC:
        raise StoreCorrupt(f"{name} is no sealed piece, or is cut short at {len(data)} bytes")
    header = data[:HEADER_BYTES]
    if _CHECKSUM.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        raise StoreCorrupt(f"{name} is damaged: the checksum of its head is wrong")
    _magic, version, kind, uuid, timeline, boot, number, first, time, size, previous, checked = _HEADER.unpack_from(
        data
    )
    if version != VERSION or kind not in PieceKind.__members__.values():
        raise StoreCorrupt(f"{name} is of a later release (version {version}, kind {kind}): restore with that one")
    payload = data[HEADER_BYTES:]
    if len(payload) != size:
        raise StoreCorrupt(f"{name} is cut short: {len(payload)} bytes of {size}")
    if hashlib.sha256(payload).digest() != checked:
        raise StoreCorrupt(f"{name} is damaged: the checksum of its payload is wrong")
    piece = Piece(PieceKind(kind), StoreName(uuid, timeline, boot), number, first, time, previous)
    return OpenedPiece(piece, payload, hashlib.sha256(header).digest())


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
