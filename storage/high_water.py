"""A high-water mark: how far a file has been written, noted beside it without a sync.

The kernel keeps it when the process is killed; a power failure may leave an older one. So it is a lower bound, never
too high: it is noted after what it counts is on disk. A start that finds less than the mark says knows that a file is
missing, cut short, or of an earlier moment. One sector, overwritten in place: it needs no room on a full disk.

    magic       4 bytes    "LvHW"
    owner       16 bytes   salt of the journal, or UUID of the definitions
    boot        8 bytes
    number      8 bytes    of the last batch, or of the last change
    checksum    4 bytes    CRC32 of the 36 bytes above
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple, final

from zlib_ng.zlib_ng import crc32

from storage import synced_files

MAGIC = b"LvHW"
SECTOR_BYTES = 512
OWNER_BYTES = 16

_MARK = struct.Struct(">4s16sQQ")
_CHECKSUM = struct.Struct(">I")


class HighWaterMark(NamedTuple):
    """The last number written for an owner in a boot."""

    owner: bytes
    boot: int
    number: int


@final
class HighWaterFile:
    """The file of a mark, open for writing. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Create the file if it is missing. Raises OSError, also on a full disk."""
        fresh = not path.exists()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(self._descriptor).st_size < SECTOR_BYTES:
                synced_files.write_all(self._descriptor, bytes(SECTOR_BYTES), 0)
                synced_files.sync(self._descriptor)
            if fresh:
                synced_files.sync_directory(path.parent)
        except OSError:
            os.close(self._descriptor)
            raise

    def note(self, owner: bytes, boot: int, number: int) -> None:
        """Write a new mark, without a sync. Raises OSError."""
        assert len(owner) == OWNER_BYTES, f"an owner of {len(owner)} bytes would be cut or padded"
        mark = _MARK.pack(MAGIC, owner, boot, number)
        os.pwrite(self._descriptor, mark + _CHECKSUM.pack(crc32(mark)), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def forget(path: Path) -> None:
    """Delete a mark whose file no longer exists. Raises OSError."""
    path.unlink(missing_ok=True)
    synced_files.sync_directory(path.parent)


def read_high_water(path: Path) -> HighWaterMark | None:
    """Read the mark in a file; None if there is no file, or no valid mark in it."""
    try:
        with path.open("rb") as file:
            data = file.read(_MARK.size + _CHECKSUM.size)
    except OSError:
        return None
    if len(data) < _MARK.size + _CHECKSUM.size or data[:4] != MAGIC:
        return None
    magic_and_mark = data[: _MARK.size]
    if _CHECKSUM.unpack_from(data, _MARK.size)[0] != crc32(magic_and_mark):
        return None
    _magic, owner, boot, number = _MARK.unpack(magic_and_mark)
    return HighWaterMark(owner, boot, number)
