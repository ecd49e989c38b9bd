"""Mistakes in what is synced, in how a store is made, in what is read unchecked, and in what a failed commit leaves."""

from __future__ import annotations

import os
from pathlib import Path

import lmdb

from storage.batch import SealedBatch
from storage.messages import lane_reader, lmdb_environment
from storage.messages.keys import IDENTITY
from storage.messages.message_store import MessageStore
from storage.messages.records import Identity
from storage.space import free_pages
from storage.space.store_space import StoreSpace
from tests.planted.mistake import BrokerCrashes, Model, Patch, Process, Simulation, mistake

FRAME_BYTES = 5
NOTHING_LEFT = "a commit that failed leaves nothing behind"


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


@mistake("I1", BrokerCrashes("has lost"))
def no_metasync(patch: Patch) -> None:
    """Have LMDB leave the last commit's meta page unsynced."""
    _open_environment_with(patch, metasync=False)


@mistake("I1", BrokerCrashes())
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


@mistake("I4", Process("tests/durability/restart/test_damage.py"))
def checksums_not_checked(patch: Patch) -> None:
    """Take every message, and every shared body, that is read for what was written."""
    patch(lane_reader, "zlib", _NoChecks)
    patch(lane_reader, "unframe", lambda data, what: bytes(data[FRAME_BYTES:]))


@mistake("I10", BrokerCrashes("", (1,)))
def no_directory_sync(patch: Patch) -> None:
    """Leave directories unsynced."""
    patch(lmdb_environment, "sync_directory", lambda directory: None)


@mistake("I10", BrokerCrashes("cannot be read as LMDB|environment of something else", (1,)))
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


@mistake("I1", Model("free pages"))
def holes_too_long(patch: Patch) -> None:
    """Give the page behind each run of free ones back to the disk, whatever is in it."""
    runs = free_pages._runs
    patch(free_pages, "_runs", lambda pages: ((first, count + 1) for first, count in runs(pages)))


@mistake("I1", Model("free pages"))
def holes_where_somebody_reads(patch: Patch) -> None:
    """Give back to the disk what a transaction that is still open may read."""
    patch(free_pages, "_readers", lambda environment: ())


@mistake(NOTHING_LEFT, Simulation(2))
def failed_commit_left_in_the_file(patch: Patch) -> None:
    """Leave the pages of a commit that did not fit behind the last one in use."""
    patch(StoreSpace, "cut_back", lambda space: None)


@mistake(NOTHING_LEFT, Simulation(11))
def killed_commit_left_in_the_file(patch: Patch) -> None:
    """Leave there, at a start, the pages of a commit that a kill has cut short."""
    patch(lmdb_environment, "cut_back", lambda directory: None)


@mistake("I1", Simulation(2))
def cut_back_too_far(patch: Patch) -> None:
    """Cut off, with what a failed commit has left, the last page in use."""

    def cut_back(space: StoreSpace) -> None:
        path = space._directory / "data.mdb"
        with path.open("rb") as file:
            root = free_pages.read_root(file.fileno())
        if root is not None:
            os.truncate(path, root.last_page * root.page_bytes)

    patch(StoreSpace, "cut_back", cut_back)
