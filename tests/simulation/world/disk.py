"""A disk with a size: what the data directory takes of it is measured, what does not fit fails as LMDB has it fail.

Somebody else's file grows and shrinks beside the broker's. A commit that would not fit is kept from growing any file
(RLIMIT_FSIZE), so that it fails inside LMDB, half written. SQLite's few pages always fit.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from storage.batch import SealedBatch
from storage.batch_removals import removals
from storage.journal.unapplied_writes import merged
from storage.messages.message_store import MessageStore
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreFull
from tests.simulation.copies import Broken

PAGE_BYTES, BLOCK_BYTES = 4096, 512
SIZE_BYTES = 64 << 20
BALLAST_BYTES, FREE_LIMIT_BYTES = 64 << 10, 32 << 10
JOURNAL_BYTES, RESERVE_BYTES = 32 << 10, 64 << 10
LARGE_BYTES = 48 << 10
"""From how many bytes on a publish is refused that the disk has no room for."""

_PAGES_OF_ANY_COMMIT, _PAGES_OF_A_LANE = 8, 4


class Usage(NamedTuple):
    """The part of the result of `shutil.disk_usage` that anybody asks for."""

    free: int


def _blocks_below(directory: str) -> int:
    """The blocks of all files in a directory; none, if it is not there. It is asked for so often that it is plain."""
    blocks = 0
    try:
        entries = os.scandir(directory)
    except FileNotFoundError:
        return 0
    with entries:
        for entry in entries:
            blocks += _blocks_below(entry.path) if entry.is_dir() else entry.stat().st_blocks
    return blocks


class Disk:
    """A disk. `slow` stretches commits, a `failing` one ends the process; `others` are the bytes of other programs.

    `deadly` names the store, messages or definitions, during whose next commit the process dies. To the broker it is
    the module `shutil`, as far as that is asked.
    """

    def __init__(self, chance: Random, directory: Path) -> None:
        self.chance = chance
        self.slow = 1
        self.others = 0
        self.failing = False
        self.deadly = ""
        self.pages_of_removals = 0
        """Pages of a batch of removals alone that has not fitted yet."""
        self._directory = directory
        self._data = directory / "messages" / "data.mdb"

    def commit_milliseconds(self) -> int:
        """Draw the milliseconds of the next commit."""
        return self.chance.randint(1, 6) * self.slow

    def kills(self, store: str) -> bool:
        """The process is to die during the commit that begins now."""
        kills = self.deadly == store
        if kills:
            self.deadly = ""
        return kills

    # Room

    @property
    def used(self) -> int:
        """Bytes of the data directory, holes not counted."""
        return _blocks_below(str(self._directory)) * BLOCK_BYTES

    @property
    def used_beside_messages(self) -> int:
        """Bytes of definitions and the ballast."""
        try:
            blocks = self._data.stat().st_blocks
        except FileNotFoundError:
            blocks = 0
        return self.used - blocks * BLOCK_BYTES

    @property
    def free(self) -> int:
        """Bytes that may still be written."""
        return max(0, SIZE_BYTES - self.others - self.used)

    def disk_usage(self, directory: Path) -> Usage:
        """Return the free bytes, whatever the directory."""
        return Usage(self.free)

    @property
    def store_bytes(self) -> int:
        """Length of the message store's file."""
        return self._data.stat().st_size if self._data.exists() else 0

    @contextmanager
    def store_file(self) -> Iterator[int]:
        """A descriptor of the message store's file, to be read."""
        with self._data.open("rb") as file:
            yield file.fileno()

    def write_in_vain(self, size: int) -> None:
        """The process dies over a commit: pages of `size` bytes are behind the last one in use, as far as they fit."""
        pages = min(1 + size // PAGE_BYTES, self.free // PAGE_BYTES)
        with self._data.open("ab") as file:
            file.write(b"\xff" * pages * PAGE_BYTES)

    def leave(self, size: int) -> None:
        """Somebody's file grows, or shrinks, until `size` bytes are left."""
        self.others = max(0, SIZE_BYTES - self.used - size)

    @contextmanager
    def held_to_its_size(self, pages: int = _PAGES_OF_ANY_COMMIT, reusable: int = 0) -> Iterator[None]:
        """Writes of that many pages have to fit into the free bytes, and into `reusable` bytes of the file."""
        if not self.others:
            yield
            return
        free = self.free
        limit = self.store_bytes + free if pages * PAGE_BYTES <= free + reusable else PAGE_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, _HARD))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (_HARD, _HARD))


_HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]


class SizedStore:
    """The message store on a disk with a size, as far as the committer's steps know it."""

    def __init__(self, store: MessageStore, disk: Disk) -> None:
        self._store = store
        self._disk = disk
        self.journal = store.journal
        self.space = SizedSpace(store.space, disk)

    def commit(self, batch: SealedBatch, *, to_journal: bool) -> bool:
        """Write a batch. Raises as the store does."""
        if to_journal and self.commit_to_journal(batch):
            return True
        pages = _pages(merged(self.journal.unapplied(), batch) if self.journal.ahead else batch)
        if not any(lane.puts for lane in batch.lanes):
            self._disk.pages_of_removals = _PAGES_OF_ANY_COMMIT + pages
        with self._whole_or_not(pages):
            self._store.commit(batch, to_journal=False)
        self._disk.pages_of_removals = 0
        return False

    def commit_to_journal(self, batch: SealedBatch) -> bool:
        """Write a batch into the journal, which takes no further room."""
        return self._store.commit_to_journal(batch)

    def catch_up(self) -> None:
        """Have LMDB take over what the journal has. Raises as the store does."""
        with self._whole_or_not(_pages(self.journal.parcel()[0]) if self.journal.make_parcel() else 0):
            self._store.catch_up()

    def take_away(self) -> None:
        """Have LMDB take away what the journal says is gone. Raises as the store does."""
        with self._whole_or_not(_pages(removals(self.journal.unapplied()))):
            self._store.take_away()

    def reclaim(self) -> bool:
        """Clear away some of what is dead; few records, so that there is more to do when the process dies."""
        with self._whole_or_not():
            return self._store.reclaim(self._disk.chance.choice((4, 256)))

    def make_freed_pages_free(self) -> None:
        """Write next to nothing."""
        with self._whole_or_not():
            self._store.make_freed_pages_free()

    @contextmanager
    def _whole_or_not(self, pages: int = 0) -> Iterator[None]:
        """A commit that does not fit leaves the file as it was: no pages for others to miss, none of its own lost."""
        before = self._disk.store_bytes
        try:
            with self._disk.held_to_its_size(_PAGES_OF_ANY_COMMIT + pages, self._store.space.reusable_bytes()):
                yield
        except StoreFull as error:
            if (after := self._disk.store_bytes) != before:
                raise Broken(f"a commit that failed leaves a file of {after} bytes, not {before}") from error
            raise


def _pages(batch: SealedBatch) -> int:
    """About how many a batch takes."""
    return _PAGES_OF_A_LANE * len(batch.lanes) + batch.put_bytes // PAGE_BYTES


class SizedSpace:
    """The room of a store on a disk with a size."""

    def __init__(self, space: StoreSpace, disk: Disk) -> None:
        self._space = space
        self._disk = disk
        self.room_bytes, self.give_back = space.room_bytes, space.give_back
        self.release_ballast, self.release_reserve = space.release_ballast, space.release_reserve

    def restore_ballast(self) -> None:
        """Take the ballast again, if there is room."""
        if self._disk.free >= BALLAST_BYTES + RESERVE_BYTES:
            self._space.restore_ballast()
