"""A target that is a directory: of another disk, or of another machine by NFS.

A piece is written under another name, synced, and linked to its own name, if that is free: it is there whole or not at
all, and is never written over, whoever else writes. Where the file system has no links it is renamed, and two processes
could take one name.
"""

from __future__ import annotations

import errno
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import final

from storage import synced_files
from storage.storage_errors import StoreError

_UNFINISHED = ".new"
_WITHOUT_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors by which a file system says that it has no links."""


class PieceExists(StoreError):
    """A piece of this name is there, with other contents: somebody else writes the same chain."""


@final
class DirectoryTarget:
    """The directory. All methods block, and raise OSError if it does not answer as it should."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __str__(self) -> str:
        return str(self._directory)

    def begin(self, chain: str) -> None:
        """Make a place for a chain. The directory itself must be there: a disk may not be mounted at present."""
        (self._directory / chain).mkdir(mode=0o700, exist_ok=True)
        synced_files.sync_directory(self._directory)

    def put(self, chain: str, name: str, parts: tuple[bytes, ...]) -> None:
        """Write a piece, synced. One that is there already with these contents is left. Raises PieceExists."""
        path = self._directory / chain / name
        if not path.exists():
            self._create(path, parts)
        if path.read_bytes() != b"".join(parts):
            raise PieceExists(f"{path} is there already, with other contents: ship to another place")
        synced_files.sync_directory(path.parent)

    def _create(self, path: Path, parts: tuple[bytes, ...]) -> None:
        """Create a file, unless there is one by now."""
        written_by = hashlib.sha256(parts[0]).hexdigest()[:8]  # another writer of the name has a file of its own
        fresh = path.with_name(f"{path.name}.{written_by}{_UNFINISHED}")
        with fresh.open("wb") as file:
            file.writelines(parts)
        synced_files.sync_file(fresh)
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _WITHOUT_LINKS:
                raise
            fresh.rename(path)
        fresh.unlink(missing_ok=True)

    def chains(self) -> list[str]:
        """Return the names of what may be chains, in the order of the alphabet."""
        try:
            return sorted(path.name for path in self._directory.iterdir() if path.is_dir())
        except FileNotFoundError:
            return []

    def names(self, chain: str) -> list[str]:
        """Return the names of what may be pieces of a chain, in the order of the alphabet."""
        return sorted(path.name for path in (self._directory / chain).iterdir())

    def get(self, chain: str, name: str) -> bytes:
        """Read a piece."""
        return (self._directory / chain / name).read_bytes()

    def remove(self, chain: str, name: str) -> None:
        """Remove a piece, if it is there, and a chain without pieces."""
        path = self._directory / chain / name
        path.unlink(missing_ok=True)
        with suppress(OSError):  # it has others, or has just got one
            path.parent.rmdir()
