"""Pieces of what a broker has on disk, cut at every alignment, as they are or changed; and bodies that hold them."""

from __future__ import annotations

import random
import stat
from collections.abc import Mapping
from pathlib import Path

FILE_BYTES_MAX = 32 << 20
"""Bytes used of the beginning of a larger file."""
SECTOR_BYTES, PAGE_BYTES = 512, 4096
BODY_BYTES_MAX = (1 << 20) - 2048
"""A batch of more than 1 MiB is not written into the journal: what comes with the body has to fit, too."""
JOURNAL = "journal"


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the contents of every file below a directory, by its path. Empty ones are left out."""
    found: dict[str, bytes] = {}
    for path in sorted(directory.rglob("*")):
        if stat.S_ISREG(path.lstat().st_mode):
            with path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX)
            if data.strip(b"\x00"):
                found[path.relative_to(directory).as_posix()] = data
    return found


def without_journal(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files but those of the journal."""
    return {name: data for name, data in files.items() if not Path(name).name.startswith(JOURNAL)}


class Pieces:
    """Pieces of files, drawn by dice."""

    def __init__(self, files: Mapping[str, bytes], dice: random.Random) -> None:
        self._files = [data for _name, data in sorted(files.items())]
        self._dice = dice

    def piece(self, size_max: int = 1 << 16, *, changed: bool = False) -> bytes:
        """A piece that begins at a sector, at a page or anywhere. One that has nothing but zeros is cut again.

        `changed`: a number in it is raised, or set to -1, to nothing or to the largest there is.
        """
        data = self._dice.choice(self._files)
        unit = self._dice.choice((1, 1, 2, 4, 8, SECTOR_BYTES, SECTOR_BYTES, PAGE_BYTES, PAGE_BYTES))
        for _ in range(8):
            at = self._dice.randrange(len(data)) // unit * unit
            size = self._dice.choice((16, 61, 255, SECTOR_BYTES, PAGE_BYTES, 3 * PAGE_BYTES, 40_001, size_max))
            found = data[at : at + min(size, size_max)]
            if found.strip(b"\x00"):
                break
        return self._changed(found) if changed else found

    def _changed(self, piece: bytes) -> bytes:
        found = bytearray(piece)
        width = self._dice.choice((1, 2, 4, 8))
        if len(found) < width:
            return piece
        at = self._dice.randrange(len(found) - width + 1)
        number = int.from_bytes(found[at : at + width], "big")
        most = (1 << 8 * width) - 1
        found[at : at + width] = self._dice.choice(
            (number + 1 & most, number + 1000 & most, most, 0, most >> 1)
        ).to_bytes(width, "big")
        return bytes(found)


def tiled(piece: bytes, size: int, begin: int) -> bytes:
    """A body of exactly `size` bytes: `begin` bytes, then the piece again and again.

    From one to the next it is an odd number of bytes. So each begins at another place of a page, wherever the body lies
    in a file: 4,096 of them begin at every one.
    """
    stride = len(piece) | 1
    filled = bytes(begin) + (piece + bytes(stride - len(piece))) * (-(-size // stride) + 1)
    return filled[:size]


def covering(piece: bytes, dice: random.Random) -> bytes:
    """A body that has a short piece at every place of a page, if that fits; else at as many as do."""
    whole = (len(piece) | 1) * PAGE_BYTES + len(piece)
    return tiled(piece, min(whole, BODY_BYTES_MAX - dice.randrange(PAGE_BYTES)), dice.randrange(PAGE_BYTES))
