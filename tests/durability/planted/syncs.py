"""Mistakes in what is synced, and in what is said before it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import lmdb

from broker.entities.messages.message import Entry
from broker.entities.queues.queue import Queue
from broker.entities.scheduling.future import Future
from broker.entities.vhosts.broker import Broker
from broker.server.definition_writer import DefinitionLog
from broker.session.channel.channel import Channel
from broker.session.input import dispatch
from broker.wire.methods import TxCommit
from storage.batch import SealedBatch
from storage.definitions.definition_changes import (
    Change,
    PutBinding,
    PutExchange,
    PutQueue,
)
from storage.definitions.definition_store import DefinitionStore
from storage.messages import lane_reader, lmdb_environment
from storage.messages.keys import IDENTITY
from storage.messages.message_store import MessageStore
from storage.messages.records import Identity
from tests.durability.planted.mistake import Mistake

BOOTS_MAX = 1 << 20
FRAME_BYTES = 5

DECLARATIONS = (PutBinding, PutExchange, PutQueue)


def _open_environment_with(**settings: bool) -> None:
    def open_environment(directory: Path, *, readonly: bool = False) -> lmdb.Environment:
        return lmdb.Environment(
            str(directory),
            map_size=lmdb_environment.MAP_BYTES,
            create=False,
            readonly=readonly,
            lock=not readonly,
            **settings,
        )

    lmdb_environment.open_environment = open_environment


def no_metasync() -> None:
    """Have LMDB leave the last commit's meta page unsynced."""
    _open_environment_with(metasync=False)


def sync_after_commit() -> None:
    """Have LMDB sync nothing by itself, and the file once it is committed."""
    _open_environment_with(sync=False)
    commit = MessageStore.commit

    def commit_and_sync(store: MessageStore, batch: SealedBatch) -> None:
        commit(store, batch)
        store._environment.sync(True)

    MessageStore.commit = commit_and_sync  # type: ignore[method-assign]


def transaction_in_two_commits() -> None:
    """Write a transaction's publishes with one batch, and its settlements with the next."""
    commit = dispatch.HANDLERS[TxCommit]

    def commit_in_two(channel: Channel, method: Any) -> None:
        if channel.transaction is not None:
            channel.transaction.publishes.append(channel.connection.broker.batches.seal)
        commit(channel, method)

    dispatch.HANDLERS[TxCommit] = commit_in_two


def acknowledgement_lost() -> None:
    """Write nothing of some acknowledgements, neither in the messages' lane nor in its counters."""
    settle, calls = Queue.settle, count()

    def settle_some(queue: Queue, entries: Sequence[Entry]) -> None:
        if next(calls) % 2:
            settle(queue, entries)
        else:
            queue.unacked -= len(entries)

    Queue.settle = settle_some  # type: ignore[method-assign]


def later_boots_first() -> None:
    """Count positions downwards from start to start, so that what came later is read back first."""
    begin = Broker.__init__

    def begin_below(
        broker: Broker, settings: Any, clock: Any, source: Any, log: Any, boot: int, *others: Any, **named: Any
    ) -> None:
        begin(broker, settings, clock, source, log, BOOTS_MAX - boot, *others, **named)

    Broker.__init__ = begin_below  # type: ignore[method-assign, assignment]


class _AnyNumber(int):
    """Equal to every other number."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


class _NoChecks:
    """In place of zlib where records are read."""

    @staticmethod
    def crc32(data: object, value: int = 0) -> int:
        """A checksum that is always right."""
        return _AnyNumber(value)


def checksums_not_checked() -> None:
    """Take every message, and every shared body, that is read for what was written."""

    def unframe(data: bytes | memoryview, what: str) -> bytes:
        return bytes(data[FRAME_BYTES:])

    lane_reader.zlib = _NoChecks  # type: ignore[attr-defined]
    lane_reader.unframe = unframe  # type: ignore[attr-defined]


def declare_ok_before_commit() -> None:
    """Answer declarations and bindings at once, and write them then."""
    write = DefinitionLog.write

    def write_later(log: DefinitionLog, *changes: Change) -> Future[None]:
        pending = write(log, *changes)
        return Future.resolved(None) if all(isinstance(change, DECLARATIONS) for change in changes) else pending

    DefinitionLog.write = write_later  # type: ignore[method-assign]


def delete_ok_before_commit() -> None:
    """Answer deletions and unbindings at once, and write them then."""
    erase = DefinitionLog.erase

    def erase_later(log: DefinitionLog, *deletions: Change, gone: Callable[[], None] | None = None) -> Future[None]:
        erase(log, *deletions, gone=gone)
        return Future.resolved(None)

    DefinitionLog.erase = erase_later  # type: ignore[method-assign]


def definitions_in_normal_mode() -> None:
    """Have SQLite sync its log only when it is moved into the file."""
    connect = DefinitionStore._connect

    async def connect_and_relax(store: DefinitionStore) -> None:
        await connect(store)
        await store._rows("PRAGMA synchronous = NORMAL")

    DefinitionStore._connect = connect_and_relax  # type: ignore[method-assign]


def unsafe_creation() -> None:
    """Make the store where it is to be, instead of renaming it there."""

    def create(directory: Path, uuid: bytes) -> None:
        directory.mkdir()
        with lmdb.Environment(str(directory), map_size=lmdb_environment.MAP_BYTES) as environment:
            with environment.begin(write=True) as txn:
                txn.put(IDENTITY, Identity(uuid, 0).encode())
        lmdb_environment.sync_directory(directory)
        lmdb_environment.sync_directory(directory.parent)

    lmdb_environment.create = create


MISTAKES = {
    "no metasync": Mistake("I1", no_metasync),
    "sync after commit": Mistake("I1", sync_after_commit),
    "transaction in two commits": Mistake("I1", transaction_in_two_commits),
    "acknowledgement lost": Mistake("I2", acknowledgement_lost),
    "later boots first": Mistake("I3", later_boots_first),
    "checksums not checked": Mistake("I4", checksums_not_checked),
    "declare-ok before commit": Mistake("I5", declare_ok_before_commit),
    "delete-ok before commit": Mistake("I5", delete_ok_before_commit),
    "definitions in normal mode": Mistake("I5", definitions_in_normal_mode),
    "unsafe creation": Mistake("I10", unsafe_creation),
}
