"""The frame of every LMDB record but message segments: a version byte and a CRC32 of the payload behind it.

LMDB keeps no checksums of its own. A store whose identity record has an unknown version is refused and left alone: a
newer release wrote it. Any other record with an unknown version is damaged, because a release that writes it raises the
version of the identity first.
"""

from __future__ import annotations

import struct

from zlib_ng.zlib_ng import crc32

from storage.storage_errors import StoreCorrupt

VERSION = 1
"""The version that this release writes. Readers of older versions stay here for good."""

_FRAME = struct.Struct(">BI")


def frame(payload: bytes) -> bytes:
    """Return a record's bytes on disk."""
    return _FRAME.pack(VERSION, crc32(payload)) + payload


def unframe(data: bytes | memoryview, what: str) -> bytes:
    """Return a record's payload. Raises StoreCorrupt, naming the record as `what`, for a wrong version or checksum."""
    return bytes(framed(data, what))


def framed(data: bytes | memoryview, what: str) -> memoryview:
    """Return a record's payload in place. Raises as `unframe` does."""
    if len(data) < _FRAME.size:
        raise StoreCorrupt(f"{what} is cut short at {len(data)} bytes")
    version, checksum = _FRAME.unpack_from(data)
    if version != VERSION:
        raise unknown_version(what, version)
    payload = memoryview(data)[_FRAME.size :]
    if crc32(payload) != checksum:
        raise StoreCorrupt(f"{what} fails its checksum")
    return payload


def unknown_version(what: str, version: int) -> StoreCorrupt:
    """Return the error for a record whose version does not occur in a store of this version."""
    return StoreCorrupt(f"{what} has format version {version}, this store has version {VERSION}")
