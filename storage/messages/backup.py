"""A consistent copy of the message store, taken while the broker runs."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import lmdb

from storage import synced_files
from storage.journal.journal_mark import NO_BATCH_YET
from storage.messages import lmdb_environment
from storage.messages.keys import JOURNAL_MARK, ORIGIN
from storage.messages.message_store import MessageStore
from storage.storage_errors import StoreError


def backup(store: MessageStore, directory: Path, backup_id: bytes) -> None:
    """Copy the store as LMDB has it into `directory`, which must not exist yet. The copy is complete or not there.

    The copy needs no journal, and is marked with the backup's id: the first start on it begins a new timeline.
    Commits continue meanwhile, but pages that they free stay in use until the copy is done: the store's file may grow.
    Call it from a thread of its own. Raises StoreError.
    """
    if lmdb_environment.exists(directory):
        raise StoreError(f"{directory} exists already: choose a new directory")
    synced_files.make_directory(directory.parent)
    fresh = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    try:
        store.copy_to(fresh)
        _mark(store, fresh, backup_id)
        synced_files.sync_file(fresh / "data.mdb")
        synced_files.sync_directory(fresh)
        fresh.rename(directory)
        synced_files.sync_directory(directory.parent)
    except (OSError, lmdb.Error) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise StoreError(f"the copy to {directory} failed ({error}): look at its disk, then try again") from error


def _mark(store: MessageStore, copy: Path, backup_id: bytes) -> None:
    with closing(lmdb_environment.open_environment(copy)) as environment, environment.begin(write=True) as txn:
        txn.put(JOURNAL_MARK, NO_BATCH_YET.encode())
        txn.put(ORIGIN, store.origin._replace(pending=True, backup=backup_id).encode())
    (copy / "lock.mdb").unlink(missing_ok=True)
