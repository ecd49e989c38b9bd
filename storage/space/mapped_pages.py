"""Pages of an LMDB file that are in the process's memory: giving them back.

LMDB maps its file. Each page that is read stays mapped, and counts as resident memory (RSS), until the kernel needs
memory. Nothing is lost by giving pages back: they stay in the kernel's page cache, and the next access maps them again,
sixteen at a time.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path
from typing import final

_advise = ctypes.CDLL(None).madvise


@final
class MappedPages:
    """The mapping of one open file. It has to stay mapped as long as this is used."""

    def __init__(self, path: Path) -> None:
        self._start, self._size = _place(path)

    def give_back(self) -> None:
        """Take all pages out of the process's memory. Without MADV_DONTNEED (not Linux) nothing happens."""
        dont_need = getattr(mmap, "MADV_DONTNEED", None)
        if not self._size or dont_need is None:
            return
        _advise(ctypes.c_void_p(self._start), ctypes.c_size_t(self._size), dont_need)


def _place(path: Path) -> tuple[int, int]:
    """Return the address and the size of a file's mapping; zeros if there is none, or the system does not tell."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
        status = path.stat()
    except OSError:
        return 0, 0
    for line in lines:
        addresses, _, _, _, inode, *name = line.split(maxsplit=5)
        if name and int(inode) == status.st_ino and Path(name[0]).name == path.name:
            start, end = (int(address, 16) for address in addresses.split("-"))
            return start, end - start
    return 0, 0
