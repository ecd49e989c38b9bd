"""The room that a message store takes on the disk, and what is left there."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import final

import lmdb

from storage.journal.journal import Journal
from storage.space import ballast
from storage.space.free_pages import FreePages, live_bytes


@final
class StoreSpace:
    """The room of one open store. On a full disk the journal's reserve has LMDB catch up, the ballast is for acks."""

    def __init__(self, directory: Path, environment: lmdb.Environment, journal: Journal) -> None:
        self._directory = directory
        self._environment = environment
        self._journal = journal
        self._free_pages = FreePages(directory, environment)
        self._has_ballast = False

    @property
    def has_ballast(self) -> bool:
        """Are ballast and reserve there to be released?"""
        return self._has_ballast and self._journal.reserved

    def close(self) -> None:
        """Let go of the file."""
        self._free_pages.close()

    # From any thread

    def disk_free_bytes(self) -> int:
        """What is free on the disk. A quota, or a limit on the size of files, is not seen."""
        return shutil.disk_usage(self._directory).free

    def room_bytes(self) -> int:
        """What may still be written: on the disk, and in the file in place of what is gone."""
        return self.disk_free_bytes() + self.reusable_bytes()

    def reusable_bytes(self) -> int:
        """How much of what the file takes on the disk holds nothing."""
        return max(0, self._free_pages.allocated_bytes - live_bytes(self._environment))

    # Between two commits

    def cut_back(self) -> None:
        """Cut off what a commit that failed has written. If that fails, the next one and the next start try again."""
        with suppress(OSError):
            self._free_pages.cut_back()

    def give_back(self) -> bool:
        """Give some of the room that free pages take back to the disk. True while there is more to give."""
        return self._free_pages.give_back()

    def release_ballast(self) -> bool:
        """Give 16 MiB back to a full disk, for acknowledgements to be committed. False when that was done already."""
        self._has_ballast = False
        return ballast.release(self._directory)

    def release_reserve(self) -> bool:
        """Give the journal's reserve back to a full disk, for LMDB to catch up. False when that was done already."""
        return self._journal.release_reserve()

    def restore_ballast(self) -> None:
        """Take both again, if the disk has room for them."""
        self._has_ballast = ballast.restore(self._directory)
        if not self._journal.reserved:
            self._journal.restore_reserve()
