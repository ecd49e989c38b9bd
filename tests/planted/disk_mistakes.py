"""Mistakes in what is synced, in how a store is made, and in what is read without a look at its checksum."""

from __future__ import annotations

from pathlib import Path

import lmdb

from storage.batch import SealedBatch
from storage.messages import lane_reader, lmdb_environment
from storage.messages.keys import IDENTITY
from storage.messages.message_store import MessageStore
from storage.messages.records import Identity
from tests.planted.mistake import BrokerCrashes, Mistake, Patch, Process, StoreCrashes

FRAME_BYTES = 5


def _open_environment_with(patch: Patch, **settings: bool) -> None:
    def open_environment(directory: Path, *, readonly: bool = False) -> lmdb.Environment:
        return lmdb.Environment(
            str(directory),
            map_size=lmdb_environment.MAP_BYTES,
            create=False,
            readonly=readonly,
            lock=not readonly,
            **settings,
        )

    patch(lmdb_environment, "open_environment", open_environment)


def no_metasync(patch: Patch) -> None:
    """Have LMDB leave the last commit's meta page unsynced."""
    _open_environment_with(patch, metasync=False)


def sync_after_commit(patch: Patch) -> None:
    """Have LMDB sync nothing by itself, and the file once it is committed."""
    _open_environment_with(patch, sync=False)
    commit = MessageStore.commit

    def commit_and_sync(store: MessageStore, batch: SealedBatch) -> None:
        commit(store, batch)
        store._environment.sync(True)

    patch(MessageStore, "commit", commit_and_sync)


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


def checksums_not_checked(patch: Patch) -> None:
    """Take every message, and every shared body, that is read for what was written."""

    def unframe(data: bytes | memoryview, what: str) -> bytes:
        return bytes(data[FRAME_BYTES:])

    patch(lane_reader, "zlib", _NoChecks)
    patch(lane_reader, "unframe", unframe)


def no_directory_sync(patch: Patch) -> None:
    """Leave directories unsynced."""

    def sync_directory(directory: Path) -> None:
        """Do nothing."""

    patch(lmdb_environment, "sync_directory", sync_directory)


def unsafe_creation(patch: Patch) -> None:
    """Make the store where it is to be, instead of renaming it there."""

    def create(directory: Path, uuid: bytes) -> None:
        directory.mkdir()
        with lmdb.Environment(str(directory), map_size=lmdb_environment.MAP_BYTES) as environment:
            with environment.begin(write=True) as txn:
                txn.put(IDENTITY, Identity(uuid, 0).encode())
        lmdb_environment.sync_directory(directory)
        lmdb_environment.sync_directory(directory.parent)

    patch(lmdb_environment, "create", create)


MISTAKES = {
    "no metasync": Mistake("I1", no_metasync, (BrokerCrashes("has lost"), StoreCrashes("comes again"))),
    "sync after commit": Mistake("I1", sync_after_commit, (BrokerCrashes(),)),
    "checksums not checked": Mistake(
        "I4", checksums_not_checked, (Process("tests/durability/restart/test_damage.py"),)
    ),
    "no directory sync": Mistake(
        "I10", no_directory_sync, (BrokerCrashes("", (1,)), StoreCrashes("the store is gone"))
    ),
    "unsafe creation": Mistake(
        "I10",
        unsafe_creation,
        (BrokerCrashes("cannot be read as LMDB|environment of something else", (1,)), StoreCrashes()),
    ),
}
