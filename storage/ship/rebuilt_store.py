"""Both stores of a broker as they were at one moment, put together from shipped pieces.

The base is written into files, and the records behind it are applied, each once: the base says which of them it has.
From `become_backup` on the files are a backup that was never opened, after each `commit`: the first start on it begins
a new timeline. So they may be opened again later, for more records, or be served as they are.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import final

import lmdb

from migrations.apply import MigrationError, apply
from storage import synced_files
from storage.commit_failures import FailureClassifier
from storage.definitions.change_count import BACKUP, CHANGES
from storage.definitions.definition_rows import Change, SetMetadata
from storage.definitions.definition_statements import steps
from storage.journal.journal import Journal
from storage.journal.journal_mark import NO_BATCH_YET, JournalMark, JournalPosition
from storage.journal.journal_payload import decode_batch
from storage.journal.unapplied_writes import UnappliedWrites
from storage.messages import lmdb_environment
from storage.messages.keys import JOURNAL_MARK, POSITION_END
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.message_store import MessageStore
from storage.messages.start.store_opening import Opened
from storage.messages.store_origin import BACKUP_BYTES
from storage.ship.change_record import decode_changes
from storage.ship.shipped_records import RecordKind, ShippedRecord
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCorrupt, StoreError

RECLAIMED_AT_ONCE = 256
PARCEL_BYTES = 32 << 20
"""Bytes of batches that LMDB is given at once: what one puts and a later one of them settles, it never sees."""


@final
class RebuiltStore:
    """The files of a base, open for the records behind it. One thread at a time uses it."""

    def __init__(self, messages: Path, definitions: Path) -> None:
        """Raises StoreError if the files are not what was shipped."""
        self._definitions_path = definitions
        self._parcel = UnappliedWrites()
        with ExitStack() as opened:
            self.messages, environment, classifier = opened.enter_context(_opened_messages(messages))
            """`messages`: for readers, who see what was committed."""
            self._environment = environment
            writer = LmdbWriter(environment, classifier, self.messages.space, self.messages.boot, POSITION_END)
            self._lmdb = opened.enter_context(closing(writer))
            self._batch = self._marked_batch()
            self._sqlite = opened.enter_context(closing(_opened(definitions)))
            self.transaction = self._counted_transaction()
            """Number of the last transaction of definitions that was applied."""
            self._opened = opened.pop_all()

    def __enter__(self) -> RebuiltStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. What was not committed is gone."""
        self._opened.close()

    def apply(self, record: ShippedRecord) -> None:
        """Apply the next record, unless the base has it. Raises StoreError."""
        if record.kind is RecordKind.BATCH:
            if record.number > self._batch:
                if record.data:  # none of a batch that had transient queues alone and went to LMDB at once
                    self._parcel.add(decode_batch(record.data, record.number))
                self._batch = record.number
            if self._parcel.bytes > PARCEL_BYTES:
                self._give_parcel()
        elif record.number > self.transaction:
            self._change(decode_changes(record.data))
            self.transaction = record.number

    def commit(self) -> None:
        """Put on disk what was applied, each store in one transaction. Raises StoreError.

        The two are not one: records that are to be on disk as a prefix are committed whenever their kind changes.
        """
        self._give_parcel()
        if self._sqlite.in_transaction:
            self._change([SetMetadata(CHANGES, self.transaction.to_bytes(8, "big"))])
            with _told(self._definitions_path):
                self._sqlite.execute("COMMIT")

    def tidy(self) -> bool:
        """Remove some dead records, or give free pages back to the disk. True while there is more.

        Raises StoreError.
        """
        return self._lmdb.reclaim(RECLAIMED_AT_ONCE) or self.messages.space.give_back()

    def become_backup(self) -> None:
        """Commit, and make the files those of a backup that was never opened. Raises StoreError."""
        backup = secrets.token_bytes(BACKUP_BYTES)
        self._change([SetMetadata(BACKUP, backup)])
        self._lmdb.write_origin(self.messages.origin._replace(pending=True, backup=backup))
        self._lmdb.write_mark(self._mark())
        self.commit()

    def finish(self) -> None:
        """Become a backup, closed and synced. Raises StoreError and OSError."""
        self.become_backup()
        self.close()
        messages = self.messages.directory
        (messages / "lock.mdb").unlink(missing_ok=True)
        wal = self._definitions_path.with_name(f"{self._definitions_path.name}-wal")
        wal.touch(mode=0o600)
        for synced in (messages / "data.mdb", messages, self._definitions_path, wal, wal.parent):
            synced_files.sync_file(synced)

    def _give_parcel(self) -> None:
        if self._parcel.batches:
            self._lmdb.write(self._parcel.sealed(), self._mark())
            self._parcel = UnappliedWrites()

    def _mark(self) -> JournalMark:
        """Return the mark that says which batches LMDB has; a backup has no journal."""
        return NO_BATCH_YET._replace(position=JournalPosition(self._batch, 0, 0))

    def _change(self, changes: list[Change]) -> None:
        """Make all changes of a record or none."""
        if not self._sqlite.in_transaction:
            with _told(self._definitions_path):
                self._sqlite.execute("BEGIN IMMEDIATE")
        self._sqlite.execute("SAVEPOINT record")
        try:
            for step in steps(changes):
                self._sqlite.executemany(step.sql, step.parameters)
            self._sqlite.execute("RELEASE record")
        except sqlite3.OperationalError as error:  # such as a full disk, which may have ended the transaction
            raise StoreError(f"{self._definitions_path} cannot be written ({error})") from error
        except sqlite3.Error as error:
            self._sqlite.execute("ROLLBACK TO record")
            raise StoreCorrupt(f"a shipped change of definitions cannot be made ({error})") from error

    def _marked_batch(self) -> int:
        """Return the number of the last batch that the base has."""
        with self._environment.begin() as txn:
            record = txn.get(JOURNAL_MARK)
        if record is None:
            raise StoreCorrupt("the shipped base has no mark of the journal")
        return JournalMark.decode(record).position.number

    def _counted_transaction(self) -> int:
        """Return the number of the last transaction of definitions that the base has."""
        found = self._sqlite.execute("SELECT value FROM metadata WHERE key = ?", [CHANGES]).fetchone()
        return 0 if found is None else int.from_bytes(found[0], "big")


@contextmanager
def _opened_messages(directory: Path) -> Iterator[tuple[MessageStore, lmdb.Environment, FailureClassifier]]:
    """Open the messages as they are: no boot begins. Raises StoreError and lmdb.Error."""
    with ExitStack() as undo:
        lock = lmdb_environment.lock(directory)
        undo.callback(os.close, lock)
        identity, origin = lmdb_environment.check_identity(directory, None), lmdb_environment.origin_of(directory)
        environment = undo.enter_context(closing(lmdb_environment.open_environment(directory)))
        classifier = undo.enter_context(closing(FailureClassifier(directory)))
        journal = Journal(None)
        space = undo.enter_context(closing(StoreSpace(directory, environment, journal)))
        parts = Opened(environment, identity, origin, journal, classifier, space, None, {})
        store = MessageStore(directory, parts, lock)
        undo.pop_all()
    with closing(store):
        yield store, environment, classifier


def _opened(path: Path) -> sqlite3.Connection:
    try:
        apply(path)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.executescript("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;")
    except (MigrationError, sqlite3.Error) as error:
        raise StoreError(f"the shipped definitions cannot be opened ({error})") from error
    return connection


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Raise StoreError for what SQLite could not do."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be written ({error})") from error
