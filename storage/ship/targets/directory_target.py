"""A target that is a directory: of another disk, or of another machine by NFS.

A piece is written under another name, synced, and linked to its own: it is there whole or not at all, and is never
written over. On a file system without links it is renamed, if its name is free.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import final

from storage import synced_files
from storage.ship.targets.ship_target import PieceExists


@final
class DirectoryTarget:
    """The directory; see `ShipTarget`."""

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
        path = directory / name
        taken = path.exists() or not _written(path, parts)
        if taken and path.read_bytes() != b"".join(parts):
            raise PieceExists(f"{path} is there already, with other contents: ship to another place")
        synced_files.sync_directory(directory)

    def chains(self) -> list[str]:
        """Return the names of what may be chains, in the order of the alphabet."""
        return sorted(path.name for path in self._directory.iterdir() if path.is_dir())

    def names(self, chain: str) -> list[str]:
        """Return the names of what may be pieces of a chain, in the order of the alphabet; none without the chain."""
        try:
            return sorted(path.name for path in (self._directory / chain).iterdir())
        except FileNotFoundError:
            self._directory.stat()  # raises FileNotFoundError: the disk is not mounted at present
            return []

    def get(self, chain: str, name: str) -> bytes:
        """Read a piece. Raises FileNotFoundError if there is none."""
        return (self._directory / chain / name).read_bytes()

    def remove(self, chain: str, name: str) -> None:
        """Remove a piece, if it is there, and a chain without pieces."""
        path = self._directory / chain / name
        path.unlink(missing_ok=True)
        with suppress(OSError):  # it has others, or has just got one
            path.parent.rmdir()

    def close(self) -> None:
        """Do nothing: a directory has no connection."""


def _written(path: Path, parts: tuple[bytes, ...]) -> bool:
    """Write a file and give it its name. False if that is taken."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")  # others may write one of this name, too
    try:
        _write(fresh, parts)
        return _linked(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def _write(path: Path, parts: tuple[bytes, ...]) -> None:
    descriptor, at = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), 0
    try:
        for part in parts:
            synced_files.write_all(descriptor, part, at)
            at += len(part)
        synced_files.sync(descriptor)
    finally:
        os.close(descriptor)


def _linked(fresh: Path, path: Path) -> bool:
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    except OSError:  # no links here
        if path.exists():
            return False
        fresh.rename(path)
    return True
