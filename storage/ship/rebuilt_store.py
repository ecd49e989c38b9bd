"""Both stores of a broker as they were at one moment, put together from shipped pieces.

The base is written into files, and the records behind it are applied, each once: the base says which of them it has.
The result is a backup that was never opened; the first start on it begins a new timeline.
"""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path
from typing import final

from migrations.apply import MigrationError, apply
from storage import synced_files
from storage.commit_failures import FailureClassifier
from storage.definitions.change_count import BACKUP, CHANGES
from storage.definitions.definition_rows import Change, SetMetadata
from storage.definitions.definition_statements import steps
from storage.journal.journal import Journal
from storage.journal.journal_mark import NO_BATCH_YET, JournalMark
from storage.journal.journal_payload import decode_batch
from storage.journal.unapplied_writes import UnappliedWrites
from storage.messages import lmdb_environment
from storage.messages.keys import JOURNAL_MARK, ORIGIN, POSITION_END
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.store_origin import BACKUP_BYTES, read_origin
from storage.ship.change_record import decode_changes
from storage.ship.shipped_records import RecordKind, ShippedRecord
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCorrupt, StoreError

PARCEL_BYTES = 32 << 20
"""Bytes of batches that LMDB is given at once: what one puts and a later one of them settles, it never sees."""


@final
class RebuiltStore:
    """The files of a base, open for the records behind it. Raises StoreError if they are not what was shipped."""

    def __init__(self, messages: Path, definitions: Path) -> None:
        self._path = messages
        self._definitions_path = definitions
        self._parcel = UnappliedWrites()
        with ExitStack() as opened:
            identity = lmdb_environment.check_identity(messages, None)
            self._environment = opened.enter_context(closing(lmdb_environment.open_environment(messages)))
            classifier = opened.enter_context(closing(FailureClassifier(messages)))
            space = opened.enter_context(closing(StoreSpace(messages, self._environment, Journal(None))))
            writer = LmdbWriter(self._environment, classifier, space, identity.boot, POSITION_END)
            self._lmdb = opened.enter_context(closing(writer))
            self._batch = self._marked_batch()
            self._sqlite = opened.enter_context(closing(_opened(definitions)))
            self._transaction = self._counted_transaction()
            self._opened = opened.pop_all()

    def __enter__(self) -> RebuiltStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def apply(self, record: ShippedRecord) -> None:
        """Apply the next record, unless the base has it. Raises StoreError."""
        if record.kind is RecordKind.BATCH:
            if record.number > self._batch:
                self._parcel.add(decode_batch(record.data, record.number))
                self._batch = record.number
            if self._parcel.bytes > PARCEL_BYTES:
                self._give_parcel()
        elif record.number > self._transaction:
            self._change(decode_changes(record.data))
            self._transaction = record.number

    def finish(self) -> None:
        """Make the files those of a backup that was never opened, synced. Raises StoreError and OSError."""
        self._give_parcel()
        backup = secrets.token_bytes(BACKUP_BYTES)
        with self._environment.begin(write=True) as txn:
            txn.put(JOURNAL_MARK, NO_BATCH_YET.encode())
            txn.put(ORIGIN, read_origin(txn)._replace(pending=True, backup=backup).encode())
        self._change([SetMetadata(CHANGES, self._transaction.to_bytes(8, "big")), SetMetadata(BACKUP, backup)])
        self._sqlite.execute("COMMIT")
        self._opened.close()
        (self._path / "lock.mdb").unlink(missing_ok=True)
        wal = self._definitions_path.with_name(f"{self._definitions_path.name}-wal")
        wal.touch(mode=0o600)
        for synced in (self._path / "data.mdb", self._path, self._definitions_path, wal, wal.parent):
            synced_files.sync_file(synced)

    def _give_parcel(self) -> None:
        if self._parcel.batches:
            self._lmdb.write(self._parcel.sealed(), None)
            self._parcel = UnappliedWrites()

    def _change(self, changes: list[Change]) -> None:
        """Make all changes of a record or none."""
        self._sqlite.execute("SAVEPOINT record")
        try:
            for step in steps(changes):
                self._sqlite.executemany(step.sql, step.parameters)
            self._sqlite.execute("RELEASE record")
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
        self._sqlite.execute("BEGIN IMMEDIATE")
        return 0 if found is None else int.from_bytes(found[0], "big")


def _opened(path: Path) -> sqlite3.Connection:
    try:
        apply(path)
        connection = sqlite3.connect(path, isolation_level=None)
        connection.executescript("PRAGMA journal_mode = DELETE; PRAGMA foreign_keys = ON;")
    except (MigrationError, sqlite3.Error) as error:
        raise StoreError(f"the shipped definitions cannot be opened ({error})") from error
    return connection
