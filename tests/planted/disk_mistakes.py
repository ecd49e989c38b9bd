"""Mistakes in what is synced, how a store is made, what is read unchecked, what a failed commit leaves, the journal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lmdb

from broker.server.commits.committer import Committer
from storage import synced_files
from storage.batch import SealedBatch
from storage.journal import journal, journal_file
from storage.journal.journal import Journal
from storage.journal.journal_file import PAGE_BYTES, PAYLOAD_AT, JournalFile, pages
from storage.journal.journal_mark import OPEN, JournalMark, JournalPosition
from storage.journal.journal_payload import encode_batch
from storage.journal.journal_reader import read_head, read_journal
from storage.messages import lane_reader, lmdb_environment
from storage.messages.keys import IDENTITY
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.message_store import MessageStore
from storage.messages.small_records import StoreIdentity
from storage.messages.start import journal_replay
from storage.messages.start.journal_replay import UnappliedBatches
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


@mistake("I1", BrokerCrashes("has lost|is of an earlier moment"))
def no_metasync(patch: Patch) -> None:
    """Have LMDB leave the last commit's meta page unsynced."""
    _open_environment_with(patch, metasync=False)


@mistake("I1", BrokerCrashes())
def sync_after_commit(patch: Patch) -> None:
    """Have LMDB sync nothing by itself, and the file once it is committed."""
    _open_environment_with(patch, sync=False)
    commit = MessageStore.commit

    def commit_and_sync(store: MessageStore, batch: SealedBatch, *, to_journal: bool = True) -> bool:
        journaled = commit(store, batch, to_journal=to_journal)
        store._environment.sync(True)
        return journaled

    patch(MessageStore, "commit", commit_and_sync)


class _AnyNumber(int):
    """Equal to every other number."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


@mistake("I4", Process("tests/durability/restart/test_damage.py"))
def checksums_not_checked(patch: Patch) -> None:
    """Take every message, and every shared body, that is read for what was written."""
    patch(lane_reader, "crc32", lambda data, value=0: _AnyNumber(value))
    patch(lane_reader, "unframe", lambda data, what: bytes(data[FRAME_BYTES:]))


@mistake("I10", BrokerCrashes("", (1,)))
def no_directory_sync(patch: Patch) -> None:
    """Leave directories unsynced."""
    patch(synced_files, "sync_directory", lambda directory: None)


@mistake("I10", BrokerCrashes("cannot be read as LMDB|environment of something else", (1,)))
def unsafe_creation(patch: Patch) -> None:
    """Make the store where it is to be, instead of renaming it there."""

    def create(directory: Path, uuid: bytes) -> None:
        directory.mkdir()
        with lmdb.Environment(str(directory), map_size=lmdb_environment.MAP_BYTES) as environment:
            with environment.begin(write=True) as txn:
                txn.put(IDENTITY, StoreIdentity(uuid, 0).encode())
        synced_files.sync_directory(directory)
        synced_files.sync_directory(directory.parent)

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


@mistake(NOTHING_LEFT, Simulation(1))
def failed_commit_left_in_the_file(patch: Patch) -> None:
    """Leave the pages of a commit that did not fit behind the last one in use."""
    patch(StoreSpace, "cut_back", lambda space: None)


@mistake(NOTHING_LEFT, Simulation(4))
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


@mistake("I1", BrokerCrashes("has lost|known to have left|is lost|are lost"))
def journal_not_synced(patch: Patch) -> None:
    """Write the journal, and sync nothing."""
    patch(journal_file, "os", _WithoutSync())


class _WithoutSync:
    """In place of the module `os`."""

    O_DSYNC = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@mistake("I1", Simulation(5))
def journal_begun_again_too_early(patch: Patch) -> None:
    """Write over what is left to LMDB before it has got that."""

    def end_parcel(file: JournalFile) -> None:
        file._needed = 0

    patch(JournalFile, "end_parcel", end_parcel)


@mistake("I1", Model("store"))
def journal_written_over_what_is_needed(patch: Patch) -> None:
    """Go round in the journal, whatever LMDB has of what is there."""
    patch(JournalFile, "fits", lambda file, payload_bytes: pages(PAYLOAD_AT + payload_bytes) <= file.size)


@mistake("I1", Simulation(14))
def committed_past_a_batch_without_room(patch: Patch) -> None:
    """Commit at once what one channel waits for, also while the batch before it waits for room."""

    def start_commit(committer: Committer, *, lazily: bool = False, gathered: bool = False) -> None:
        no_room = committer.broker.batches.disk_full
        if (committer.busy and not no_room) or committer._error is not None:
            return
        batch = committer.broker.batches.next(lazily=lazily or no_room)
        if batch is not None:
            committer._last = batch.number
            if committer._writer.commit_at_once(batch, loop_busy=False):
                committer.stored(batch)
            else:
                committer._writer.hand_over(batch)

    patch(Committer, "start_commit", start_commit)


@mistake("I2", Simulation(2))
def journal_of_an_earlier_boot(patch: Patch) -> None:
    """Take the records of the file over, whatever boot has written them, and whether LMDB needs them or not."""
    behind_mark = journal_replay._behind_mark

    def of_any_boot(directory: Path, identity: StoreIdentity, mark: JournalMark) -> UnappliedBatches:
        head = read_head(directory)
        if head is None or mark.needs_journal:
            return behind_mark(directory, identity, mark)
        begin = JournalPosition(0, 0, head.previous)
        contents = read_journal(directory, JournalMark(OPEN, head.salt, head.size * PAGE_BYTES, begin, 0), None)
        return journal_replay._decoded(contents._replace(lost=None), mark, mark.size)

    patch(journal_replay, "_behind_mark", of_any_boot)


@mistake("I2", Simulation(1))
def journal_taken_over_twice(patch: Patch) -> None:
    """Do not note in LMDB what of the journal it has, but for the first time in a boot."""
    write, noted = LmdbWriter.write, set[bytes]()

    def write_and_note_once(writer: LmdbWriter, batch: SealedBatch, mark: JournalMark | None) -> None:
        write(writer, batch, None if mark is None or mark.salt in noted else mark)
        noted.update([] if mark is None else [mark.salt])

    patch(LmdbWriter, "write", write_and_note_once)


@mistake("I2", Simulation(1))
def acknowledgements_not_in_the_journal(patch: Patch) -> None:
    """Write what is put into the journal, and nothing of what is settled."""

    def encode_puts(batch: SealedBatch) -> bytes:
        return encode_batch(batch._replace(lanes=tuple(lane._replace(settled=()) for lane in batch.lanes)))

    patch(journal, "encode_batch", encode_puts)


@mistake("I1", Simulation(1))
def readers_overlook_the_journal(patch: Patch) -> None:
    """Read LMDB alone."""
    patch(Journal, "view", lambda journal, queue_id, lane, after, before: None)
