"""Bring a definitions file to the newest schema, or refuse it and leave it as it is.

Migrations are the numbered SQL files beside this one. Each runs in one transaction that ends by setting
`PRAGMA user_version` to its number, so a crash leaves the file before or after a migration, never within.
A file that is to be changed is copied first. A new file is made under another name and renamed once it is whole
and synced, so a crash at any instant of the first start leaves either no file or a complete one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

APPLICATION_ID = 0x4C565254
"""Marks a SQLite file as Leveret's definitions ("LVRT")."""

BUSY_SECONDS = 1.0
"""Time to wait for another process that holds the file."""

SQLITE_MAGIC = b"SQLite format 3\0"

Sync = Callable[[Path], None]
"""Syncs a file or a directory."""


class MigrationError(Exception):
    """Raised for a foreign or newer file, and a failed migration; the message says what to do."""


class Migration(NamedTuple):
    """One numbered step of the schema."""

    number: int
    name: str
    sql: str


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def migrations(directory: Path = Path(__file__).parent) -> list[Migration]:
    """Read the steps in `directory`, in order. Raises MigrationError unless they are numbered 1, 2, 3, ..."""
    files = sorted(directory.glob("[0-9]*.sql"))
    found = [Migration(int(file.name[:4]), file.stem, file.read_text(encoding="utf-8")) for file in files]
    if [step.number for step in found] != list(range(1, len(found) + 1)):
        raise MigrationError(f"{directory}: migrations are not numbered without gaps: {[f.name for f in files]}")
    return found


def apply(path: Path, steps: Sequence[Migration] | None = None, sync: Sync = _sync) -> None:
    """Create the file at `path`, or run the steps that it lacks. Its directory must exist.

    `sync` syncs a file's bytes or a directory's names.

    Raises MigrationError, having touched nothing, for a file that is foreign or newer than `steps`; sqlite3.Error
    and OSError for what the disk refuses.
    """
    steps = migrations() if steps is None else steps
    if not path.exists():
        _create(path, steps, sync)
        return
    _refuse_foreign(path, len(steps))
    with closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)) as connection:
        # Without SQLite's -shm file, for which a full disk may have no room after a crash.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        version = _version(connection)
        _refuse_newer(path, version, len(steps))
        if version < len(steps):
            _copy(connection, path.with_name(f"{path.name}.before-{steps[version].name}"), sync)
            _run(connection, path, steps[version:])


def _create(path: Path, steps: Sequence[Migration], sync: Sync) -> None:
    draft = path.with_name(path.name + ".new")
    _remove(draft)
    with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
        # The draft needs no journal file: after a crash it is deleted, and the sync below makes it durable.
        connection.execute("PRAGMA journal_mode = MEMORY")
        _run(connection, path, steps)
    _rename_synced(draft, path, sync)


def _refuse_foreign(path: Path, newest: int) -> None:
    """Judge by the file's first bytes alone: opening it with SQLite could already change it."""
    with path.open("rb") as file:
        head = file.read(100)
    application = int.from_bytes(head[68:72], "big")
    if head[:16] != SQLITE_MAGIC or application != APPLICATION_ID:
        raise MigrationError(f"{path}: is not a definitions store of Leveret; move it away or name another directory")
    _refuse_newer(path, int.from_bytes(head[60:64], "big"), newest)


def _refuse_newer(path: Path, version: int, newest: int) -> None:
    if version > newest:
        raise MigrationError(
            f"{path}: has schema {version}, this program knows up to {newest}; use the newer Leveret that wrote it"
        )


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _run(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> None:
    connection.executescript("PRAGMA synchronous = FULL; PRAGMA fullfsync = ON;")
    for step in steps:
        try:
            connection.executescript(f"BEGIN IMMEDIATE;\n{step.sql}\nPRAGMA user_version = {step.number};\nCOMMIT;")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise MigrationError(f"{path}: migration {step.name} failed, nothing of it was kept: {error}") from error


def _copy(connection: sqlite3.Connection, copy: Path, sync: Sync) -> None:
    """Keep the file as it is now under the name `copy`, complete and synced."""
    draft = copy.with_name(copy.name + ".new")
    _remove(draft)
    with closing(sqlite3.connect(draft)) as target:
        connection.backup(target)
    _rename_synced(draft, copy, sync)


def _rename_synced(draft: Path, path: Path, sync: Sync) -> None:
    sync(draft)
    draft.replace(path)
    sync(path.parent)


def _remove(draft: Path) -> None:
    """Remove the draft of an interrupted start."""
    for suffix in ("", "-batches", "-wal", "-shm"):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)
