"""The definitions store: entities, users and permissions, in one SQLite file.

SQLite is reached through aiosqlite, which lives on asyncio. The store runs an asyncio loop of its own in one
thread that runs each function as a whole, so a caller of any kind (a thread, a test, a worker of another
event loop) just calls and waits. One connection, one lock, one function per transaction. A commit is run by the
calling thread on the same connection: the way through both threads took four times as long as a small transaction.

The journal is a write-ahead log synced at every commit (`synchronous = FULL`); less has been seen to lose the
last commit when the power fails. The file is locked exclusively: no other process changes it while the broker runs.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import aiosqlite

from migrations.apply import MigrationError, apply
from storage import synced_files
from storage.definitions import features
from storage.definitions.change_count import BACKUP, ChangeCount
from storage.definitions.definition_rows import TABLES, Change, Definitions, SetMetadata
from storage.definitions.definition_statements import BEGIN_SEQUENCE, LIFT_SEQUENCE, Row, Step, rows, select, steps
from storage.definitions.definitions_copy import copied
from storage.pending_sync import PendingSync
from storage.storage_errors import StoreError, StoreIncomplete

log = logging.getLogger("leveret.definitions")

Result = TypeVar("Result")

FULL_CODES = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE})
"""SQLite's errors for a full disk: directly, or as a failure to grow its shared memory file."""

CHECKPOINT_COMMITS = 150
"""Commits after which SQLite's log is to be moved into the file. SQLite does so within a commit, after 1,000 pages."""
FIRST_COMMITS = 4
"""Commits of a start after which this is done first, and the log gets its full size: most brokers declare more."""
LOG_BYTES = 2 << 20
"""Full size of SQLite's log: CHECKPOINT_COMMITS of the usual three pages."""

BUSY_SECONDS = 1.0
"""Time to wait for another process that has the file open before giving up."""

PRAGMAS = """
PRAGMA locking_mode = EXCLUSIVE;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA fullfsync = ON;
PRAGMA foreign_keys = ON;
"""


class DefinitionsError(StoreError):
    """The definitions could not be read or changed; the message says where and why.

    When it came from `commit`, nothing of that call is kept in the running store. (A failed sync leaves open
    what a crash right after it would keep, which is no worse than a crash just before the answer.)
    """


class DefinitionsFull(DefinitionsError):
    """No room on the disk. Nothing of the call was kept; it may be tried again."""


class DefinitionStore:
    """The open definitions file. Its methods block, may be called from any thread, and run one after another."""

    def __init__(self, path: Path) -> None:
        """Use `open`."""
        self.path = path
        self.uuid = b""
        """Identity shared with the message store; 16 bytes."""
        self.wants_checkpoint = False
        """`checkpoint` is due."""
        self._count = ChangeCount(path)
        self._closed = False
        self._using = threading.Lock()
        """Held by the thread that uses the connection."""
        self._commits = CHECKPOINT_COMMITS - FIRST_COMMITS
        """Since the last checkpoint."""
        self.on_durable: Callable[[Sequence[Change], int], None] | None = None
        """Called with the changes of each transaction that is on disk, and its number. In order, by its thread."""
        self.pending = PendingSync(path.name)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="leveret-definitions", daemon=True)

    @classmethod
    def open(cls, path: Path, *, create: bool = True, accept_loss: bool = False) -> Self:
        """Open the file at `path`, bringing it to the newest schema; its directory must exist.

        With `create=False` a missing file is an error. Raises DefinitionsError, having touched nothing, when the
        file is foreign, newer than this program, in use by another process or unreadable; and StoreIncomplete when
        changes are missing that were there, unless that loss is accepted.
        """
        if not create and not path.exists():
            raise DefinitionsError(
                f"{path}: is missing; bring it back from a backup, messages cannot be read without it"
            )
        store = cls(path)
        try:
            _look_first(path, store._count, accept_loss=accept_loss)
            apply(path, sync=synced_files.sync_file)
            store._thread.start()
            store._call(store._connect)
            _refuse_unknown_features(store)
            _go_on(store, accept_loss=accept_loss)
        except BaseException as error:
            if not store._closed:
                store._stop_loop()
            if isinstance(error, (MigrationError, sqlite3.Error, OSError)):
                raise _translated(path, error) from error
            raise
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def load(self) -> Definitions:
        """Read everything. Raises DefinitionsError, also for rows that are damaged."""
        try:
            return self._call(self._load)
        except (AttributeError, TypeError, ValueError) as error:
            raise DefinitionsError(
                f"{self.path} is damaged, or {self.path.name}-wal is missing ({error}): bring both files back as the "
                "last broker left them, or restore a backup with `leveret restore`"
            ) from error

    def metadata(self) -> dict[str, bytes]:
        """Read the metadata alone. Raises DefinitionsError."""
        return self._call(self._metadata)

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes in one transaction, synced when this returns.

        Raises DefinitionsFull or DefinitionsError; then none of them was made.
        """
        if changes:
            with self._using, self._translating():
                self._commit(changes)

    def commit_at_once(self, changes: Sequence[Change]) -> bool:
        """Commit as `commit` does, without waiting for another thread. False, with nothing done, if one is at work.

        Also if a checkpoint is due: SQLite would make it within the commit.
        """
        if self.wants_checkpoint or not self._using.acquire(blocking=False):
            return False
        try:
            with self._translating():
                self._commit(changes)
        finally:
            self._using.release()
        return True

    def checkpoint(self) -> None:
        """Move SQLite's log into the file, so that its space is used again, and give it its full size.

        A file that grows is synced more slowly. Raises DefinitionsError; the log then grows on.
        """
        self._commits, self.wants_checkpoint = 0, False
        with self._using, self._translating(), self.pending:
            ((_busy, in_log, moved),) = self._sqlite.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            if in_log == moved:
                self._count.moved_into_file()
            synced_files.lengthen(self.path.with_name(f"{self.path.name}-wal"), LOG_BYTES)

    def lift_queue_id(self, highest: int) -> None:
        """Give no queue id up to `highest` again: the message store knows them. Raises as `commit` does."""
        if self._call(self._queue_id_sequence) >= highest:
            return  # nothing is written: a start needs no free space on the disk
        with self._using, self._translating():
            _transact(self._sqlite, [Step(sql, [{"queue_id": highest}]) for sql in (BEGIN_SEQUENCE, LIFT_SEQUENCE)])

    def backup(self, path: Path, backup_id: bytes) -> None:
        """Write a consistent, synced copy to `path`, which must not exist, with the backup's id.

        Raises DefinitionsError.
        """
        if path.exists():
            raise DefinitionsError(f"{path}: exists already; a backup does not overwrite")
        self._call(self._backup, path, backup_id)

    def close(self) -> None:
        """Close the file; everything committed is on disk already. Closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with self._using:
                asyncio.run_coroutine_threadsafe(self._connection.close(), self._loop).result()
        finally:
            self._stop_loop()
            self._count.close()

    # In the calling thread

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """Raise DefinitionsError for what goes wrong meanwhile, or if the store is closed."""
        if self._closed:
            raise DefinitionsError(f"{self.path}: is closed")
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, UnicodeError) as error:
            raise _translated(self.path, error) from error

    def _commit(self, changes: Sequence[Change]) -> None:
        with self.pending:
            _transact(self._sqlite, steps((*changes, *self._count.next())))
            self._count.committed()
        self._commits += 1
        self.wants_checkpoint = self._commits >= CHECKPOINT_COMMITS
        on_durable = self.on_durable  # the event loop may take it away
        if on_durable is not None:
            on_durable(changes, self._count.number)

    def _call(self, work: Callable[..., Coroutine[Any, Any, Result]], *arguments: Any) -> Result:
        with self._using, self._translating():
            return asyncio.run_coroutine_threadsafe(work(*arguments), self._loop).result()

    # Every coroutine below runs on the store's own loop, while the caller of `_call` waits for it.

    def _stop_loop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    async def _connect(self) -> None:
        # Used by the threads that commit, too, one at a time.
        self._connection, self._sqlite = await _connection(
            self.path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
        )
        try:
            await self._connection.executescript(PRAGMAS)
            ((self.uuid,),) = await self._rows("SELECT value FROM metadata WHERE key = 'store_uuid'")
        except BaseException:
            # An aiosqlite connection left open keeps its thread, and with it the process, alive.
            await self._connection.close()
            raise

    async def _rows(self, sql: str) -> Iterable[Any]:
        return await self._connection.execute_fetchall(sql)

    async def _kind(self, kind: type[Row]) -> tuple[Row, ...]:
        return rows(kind, await self._rows(select(kind)))

    async def _load(self) -> Definitions:
        """Ask for all tables at once: the connection's thread goes from one to the next without this one."""
        wanted: dict[str, Coroutine[Any, Any, Any]] = {
            **{table.name: self._kind(kind) for kind, table in TABLES.items()},
            "tombstones": self._rows("SELECT queue_id FROM tombstones"),
            "queue_id_sequence": self._queue_id_sequence(),
            "metadata": self._metadata(),
        }
        found = dict(zip(wanted, await asyncio.gather(*wanted.values()), strict=True))
        found["tombstones"] = frozenset(queue_id for (queue_id,) in found["tombstones"])
        return Definitions(**found)

    async def _metadata(self) -> dict[str, bytes]:
        return dict(await self._rows("SELECT key, value FROM metadata"))

    async def _queue_id_sequence(self) -> int:
        found = await self._rows(
            "SELECT seq FROM sqlite_sequence WHERE name = 'queues' "
            "UNION ALL SELECT max(queue_id) FROM exchanges UNION ALL SELECT max(queue_id) FROM tombstones"
        )
        return max((int(number) for (number,) in found if number is not None), default=0)

    async def _backup(self, path: Path, backup_id: bytes) -> None:
        # The copying is done by our connection's thread, the target was opened by another.
        target, _ = await _connection(path, check_same_thread=False)
        try:
            await self._connection.backup(target)
            for step in steps([SetMetadata(BACKUP, backup_id)]):
                await target.executemany(step.sql, step.parameters)
            await target.commit()
        finally:
            await target.close()
        # Copied over later definitions, it replaces their -wal, too, which SQLite would apply to the older file.
        wal = path.with_name(f"{path.name}-wal")
        wal.touch(mode=0o600)
        for synced in (path, wal, path.parent):
            synced_files.sync_file(synced)


def _transact(connection: sqlite3.Connection, prepared: Iterable[Step]) -> None:
    """Carry out statements in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in prepared:
            connection.executemany(step.sql, step.parameters)
        connection.execute("COMMIT")
    except BaseException:
        # Some failures, a full disk among them, have ended the transaction already.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _refuse_unknown_features(store: DefinitionStore) -> None:
    found = features.unknown(store.metadata())
    if found:
        store.close()
        used = f"{store.path}: the store uses {', '.join(found)}, which this release does not know"
        raise DefinitionsError(f"{used}: use the newer Leveret that wrote it")


def _look_first(path: Path, count: ChangeCount, *, accept_loss: bool) -> None:
    """Raise DefinitionsError if a file and its -wal do not belong together, which opening them would already change.

    And StoreIncomplete if changes are missing, unless that loss is accepted. After a clean stop there is no -wal.
    If the disk is too full for a copy, nothing is checked.
    """
    wal = path.with_name(f"{path.name}-wal")
    if not path.exists() or not wal.exists() or not wal.stat().st_size:
        return
    try:
        with copied(path) as copy, closing(sqlite3.connect(copy)) as connection:
            metadata = dict(connection.execute("SELECT key, value FROM metadata"))
            ((found,), *_more) = connection.execute("PRAGMA quick_check")
            found = "they are of different brokers" if count.is_of_another(metadata) else found
    except sqlite3.Error as error:
        found = str(error)
    except StoreError as error:
        log.debug("not looked at before it is opened: %s", error)
        return
    if found != "ok":
        raise DefinitionsError(
            f"{path} and {wal.name} do not belong together, or one is damaged ({found}): bring both files back as the "
            "last broker left them, or restore a backup with `leveret restore`"
        )
    if not accept_loss:
        _refuse(count.missing(metadata))


def _refuse(missing: str) -> None:
    if missing:
        raise StoreIncomplete(
            f"{missing}; bring both files back as the last broker left them, or do without these changes by "
            "`leveret recover --accept-loss` or store.accept_loss = true"
        )


def _go_on(store: DefinitionStore, *, accept_loss: bool) -> None:
    """Go on with the count of changes. Raises StoreIncomplete if some are missing, and that is not accepted."""
    metadata = store.metadata()
    missing = store._count.missing(metadata)
    if missing and not accept_loss:
        store.close()
        _refuse(missing)
    if missing:
        log.error("%s; the loss is accepted", missing)
    store._count.go_on(metadata)


async def _connection(path: Path, **options: Any) -> tuple[aiosqlite.Connection, sqlite3.Connection]:
    """Return an open connection, and SQLite's own behind it. If opening fails, waits until its thread has ended."""
    threads: list[threading.Thread] = []
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        connection: sqlite3.Connection = sqlite3.connect(path, **options)
        opened.append(connection)
        return connection

    try:
        return await aiosqlite.Connection(connect, iter_chunk_size=64), opened[0]
    except BaseException:
        for thread in threads:
            thread.join()
        raise


def _translated(path: Path, error: Exception) -> DefinitionsError:
    if isinstance(error, MigrationError):
        return DefinitionsError(str(error))
    code = getattr(error, "sqlite_errorcode", 0)
    if code in FULL_CODES:
        return DefinitionsFull(f"{path}: the disk is full; free some space")
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        return DefinitionsError(f"{path}: cannot be opened for writing; see that this user may, and look at the disk")
    if code == sqlite3.SQLITE_BUSY:
        return DefinitionsError(f"{path}: is in use by another process; stop it, or ask the running broker")
    return DefinitionsError(f"{path}: {error}")
