"""A target that is a directory: of another disk, or of another machine by NFS.

A piece is written under another name, synced, and renamed, if its own name is free: it is there whole or not at all,
and is never written over. One process writes a chain, so nobody takes the name in between.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import final

from storage import synced_files
from storage.storage_errors import StoreError

_UNFINISHED = ".new"


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
        directory = self._directory / chain
        path, fresh = directory / name, directory / f"{name}{_UNFINISHED}"
        if path.exists():
            if path.read_bytes() != b"".join(parts):
                raise PieceExists(f"{path} is there already, with other contents: ship to another place")
        else:
            with fresh.open("wb") as file:
                file.writelines(parts)
            synced_files.sync_file(fresh)
            fresh.rename(path)
        synced_files.sync_directory(directory)

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
