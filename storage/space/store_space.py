"""Disk space of an open message store: free, reusable and reserved bytes."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import final

import lmdb

from storage.journal.journal import Journal
from storage.space import ballast
from storage.space.free_pages import FreePages, live_bytes
from storage.space.mapped_pages import MappedPages


@final
class StoreSpace:
    """Disk space of one open store.

    On a full disk the journal's reserve is for LMDB to catch up, the ballast for acks.
    """

    def __init__(self, directory: Path, environment: lmdb.Environment, journal: Journal) -> None:
        self._directory = directory
        self._environment = environment
        self._journal = journal
        self._free_pages = FreePages(directory, environment)
        self._mapped = MappedPages(directory / "data.mdb")
        self._has_ballast = False

    @property
    def has_ballast(self) -> bool:
        """True if ballast and reserve are there to be released."""
        return self._has_ballast and self._journal.reserved

    def close(self) -> None:
        """Close the file."""
        self._free_pages.close()

    # From any thread

    def disk_free_bytes(self) -> int:
        """Free bytes of the disk. A quota, or a limit on the size of files, is not seen."""
        return shutil.disk_usage(self._directory).free

    def room_bytes(self) -> int:
        """Bytes that may still be written: free on the disk, and reusable in the file."""
        return self.disk_free_bytes() + self.reusable_bytes()

    def reusable_bytes(self) -> int:
        """Bytes that the file takes on the disk without holding records."""
        return max(0, self._free_pages.allocated_bytes - live_bytes(self._environment))

    def give_mapped_back(self) -> None:
        """Take the file's pages out of the process's memory; they stay in the kernel's cache. Before `close` only."""
        self._mapped.give_back()

    # Between two commits

    def cut_back(self) -> None:
        """Cut off what a failed commit wrote. If that fails, the next failed commit or the next start does it."""
        with suppress(OSError):
            self._free_pages.cut_back()

    def give_back(self) -> bool:
        """Return disk space of some free pages. True while there is more."""
        return self._free_pages.give_back()

    def release_ballast(self) -> bool:
        """Free 16 MiB on a full disk, for acknowledgements to be committed. False if that was done already."""
        self._has_ballast = False
        return ballast.release(self._directory)

    def release_reserve(self) -> bool:
        """Free the journal's reserve on a full disk, for LMDB to catch up. False if that was done already."""
        return self._journal.release_reserve()

    def restore_ballast(self) -> None:
        """Reserve ballast and journal reserve again, if the disk has room for them."""
        self._has_ballast = ballast.restore(self._directory)
        if not self._journal.reserved:
            self._journal.restore_reserve()
