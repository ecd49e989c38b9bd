"""Backups of both stores of a running broker.

The messages are copied first. A queue declared meanwhile is empty in the copy; for one deleted meanwhile the copied
definitions have the tombstone, because none is dropped while a copy is being made.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import trio

from broker.admin.protocol import AdministrationError
from broker.server.recovery import DEFINITIONS_FILE, MESSAGES_DIRECTORY, Stores
from storage import synced_files
from storage.messages import lmdb_environment
from storage.messages.backup import backup as copy_messages
from storage.messages.store_origin import BACKUP_BYTES

NEW = ".new"
"""Ending of a copy that is being made."""


class StoreCopies:
    """Makes copies, several at a time if asked to, and drops no tombstones until the last of them is made.

    `drop_tombstones` is called with deleted queues of which the message store holds nothing any more.
    """

    def __init__(self, stores: Stores, drop_tombstones: Callable[[Sequence[int]], None]) -> None:
        self._stores = stores
        self._drop_tombstones = drop_tombstones
        self._under_way = 0
        self._reclaimed: list[int] = []

    def reclaimed(self, queue_ids: Sequence[int]) -> None:
        """Drop the tombstones of these deleted queues, whose messages are cleared away, once no copy is being made."""
        self._reclaimed += queue_ids
        self._drop_if_idle()

    async def make(self, directory: Path) -> None:
        """Copy both stores into a new directory, whole or not at all.

        Raises AdministrationError `already_exists`, StoreError and OSError.
        """
        self._under_way += 1
        try:
            await trio.to_thread.run_sync(copy_stores, self._stores, directory)
        finally:
            self._under_way -= 1
            self._drop_if_idle()

    def _drop_if_idle(self) -> None:
        if self._reclaimed and not self._under_way:
            reclaimed, self._reclaimed = self._reclaimed, []
            self._drop_tombstones(reclaimed)


def copy_stores(stores: Stores, directory: Path) -> None:
    """Copy both stores into a new directory, whole or not at all. Raises as `StoreCopies.make` does."""
    fresh = directory.with_name(directory.name + NEW)
    synced_files.make_directory(directory.parent)
    with alone(fresh):
        if lmdb_environment.exists(directory):
            raise AdministrationError("already_exists", f"{directory} exists already: name a directory that does not")
        shutil.rmtree(fresh, ignore_errors=True)  # the rest of a backup that was cut short
        fresh.mkdir(mode=0o700)
        try:
            backup_id = secrets.token_bytes(BACKUP_BYTES)
            copy_messages(stores.messages, fresh / MESSAGES_DIRECTORY, backup_id)
            stores.definitions.backup(fresh / DEFINITIONS_FILE, backup_id)
            fresh.rename(directory)
            synced_files.sync_directory(directory.parent)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise


@contextmanager
def alone(fresh: Path) -> Iterator[None]:
    """Lock out another backup into the same directory. Raises AdministrationError `already_exists`."""
    path = fresh.with_name(f"{fresh.name}.lock")
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(held).st_nlink:
            raise BlockingIOError  # another backup has just ended and removed the file that we locked
    except BlockingIOError:
        os.close(held)
        raise AdministrationError("already_exists", f"{fresh} is being written by another backup") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(held)
