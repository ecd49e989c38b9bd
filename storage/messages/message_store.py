"""The message store: every queue's messages on disk, in one LMDB environment with a journal in front.

A queue is a number here, and has lanes (one per priority); a message is bytes at a position of a lane. One thread at a
time writes: it commits sealed batches, each with one write into the journal, hands them to LMDB, and removes dead
records in between. Any thread may read: readers see the last commit. docs/storage-format.md has the layout.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, final

import lmdb

from storage.batch import (
    COUNTER_BITS,
    TRANSIENT_QUEUE,
    LaneState,
    SealedBatch,
    StoredMessage,
    WaitingMessage,
)
from storage.batch_removals import removals
from storage.journal.journal_mark import NO_BATCH_YET
from storage.messages import lane_peek, lmdb_environment, stepwise_deletion, stream_index
from storage.messages.key_lookup import records
from storage.messages.keys import (
    DELETION,
    IDENTITY,
    JOURNAL_MARK,
    LANE,
    LAST_EVENT,
    ORIGIN,
    lane_of,
    number_key,
    number_of,
)
from storage.messages.lane_reader import LaneReader
from storage.messages.lmdb_writer import LmdbWriter
from storage.messages.small_records import NumberInBoot, StoreIdentity, decode_counters
from storage.messages.start.journal_replay import unapplied_in_journal
from storage.messages.start.start_repair import repair
from storage.messages.start.store_opening import Opened, Opening, highest_queue_id, open_directory
from storage.messages.store_origin import NEVER_RESTORED
from storage.space.free_pages import live_bytes
from storage.storage_errors import StoreCorrupt, StoreError, StoreFull, StoreIncompatible


class StoreStatistics(NamedTuple):
    """Figures of the store. `live_bytes` are pages in use; the rest of `file_bytes` is free for new records."""

    entries: int
    file_bytes: int
    live_bytes: int
    commits: int
    last_commit_seconds: float
    set_aside: int


@final
class MessageStore:
    """The message store of one directory. Created by `open`; one process at a time has it open.

    `corrupt`: records that could not be read, to be taken from the left end, while reading threads and the writing one
    add to it. The next commit takes these records out of their lanes and keeps their bytes; the queue has to subtract
    them from its counters.
    `space` is its disk space, `journal` the journal in front of LMDB, `io` counts writes and reads. `catching_up` is
    True while LMDB applies a parcel of the journal. `lost` are the batches whose loss this start has accepted,
    `accepted` all accepted losses by the boot that began without them; `origin` is the backup that the store was
    restored from.
    """

    def __init__(self, directory: Path, opened: Opened, lock: int) -> None:
        environment, identity = opened.environment, opened.identity
        self.directory = directory
        self.uuid = identity.uuid
        self.boot = identity.boot
        self.origin = opened.origin
        self.lost = opened.lost
        self.accepted = opened.accepted
        self.journal = opened.journal
        self.space = opened.space
        self.streams = stream_index.Streams(environment, opened.journal)
        self.peeks = lane_peek.Peeks(environment, opened.journal, lambda: self.boot)
        self._environment = environment
        self._classifier = opened.classifier
        self._lock = lock
        self._lmdb = LmdbWriter(
            environment, opened.classifier, opened.space, identity.boot, identity.boot << COUNTER_BITS
        )
        self.catching_up = False
        self.corrupt = self._lmdb.corrupt
        self.io = self._lmdb.io
        with environment.begin(buffers=True) as txn:
            self.last_event = _last_event(txn)
            """The last event recorded before a commit of an earlier boot; None without one."""

    # Opening and closing

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        store_uuid: bytes | None = None,
        compact: bool = True,
        create: bool = True,
        journal_bytes: int = 0,
        recorded: bool = False,
        accept_loss: bool = False,
        known_boot: int = 0,
        queue_ids: int = 0,
    ) -> MessageStore:
        """Open the store of a directory, or create it; count the boot, and sync that before returning.

        `store_uuid` (16 bytes) must be the store's owner. Transient messages of earlier boots are dead from here on.
        With `journal_bytes` 0 no journal is written; one that is there is applied. If no events are `recorded` in this
        boot, the last event is forgotten. With `accept_loss` the start continues without lost batches of the journal.
        The boot's number is above `known_boot`, which the event log knows; for a backup, `queue_ids` is the highest
        queue id in its definitions, also of queues without records here. Raises StoreLocked, StoreIncompatible,
        StoreCorrupt and StoreIncomplete, each before anything was changed; StoreFull; and StoreError if the system
        refuses.
        """
        lock = lmdb_environment.lock(directory)
        opening = Opening(store_uuid, compact, create, journal_bytes, recorded, accept_loss, known_boot, queue_ids)
        try:
            return cls(directory, open_directory(directory, opening), lock)
        except (OSError, lmdb.Error) as error:
            os.close(lock)
            # LMDB reports a full disk by its text alone, and has no error of its own for a quota.
            if "No space left" in str(error) or "quota" in str(error):
                raise StoreFull(f"{directory} cannot be opened: the disk is full ({error}): free some space") from error
            raise StoreError(
                f"{directory} cannot be opened ({error}): check that this user may read and write it"
            ) from error
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        """Close the store. If LMDB has all that was committed, it is given a mark that says so.

        If that mark cannot be written, the next start reads the journal and finds nothing that LMDB lacks.
        """
        mark = self.journal.closing_mark()
        if mark is not None and not self._lmdb.failed:
            with suppress(StoreError):
                self._lmdb.write_mark(mark)
        self._environment.close()
        self.journal.close()
        self._lmdb.close()
        self._classifier.close()
        self.space.close()
        os.close(self._lock)

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What a start needs to know

    def lanes(self) -> dict[int, dict[int, LaneState]]:
        """Read the committed counters of every lane, by queue and lane, without queues that are being deleted."""
        found: dict[int, dict[int, LaneState]] = {}
        with self._environment.begin(buffers=True) as txn:
            deleted = {number_of(key) for key, _value in records(txn, DELETION)}
            for key, value in records(txn, LANE):
                queue_id, lane = lane_of(key)
                if queue_id in deleted and queue_id < TRANSIENT_QUEUE:
                    continue
                found.setdefault(queue_id, {})[lane] = LaneState(*decode_counters(value))
        return found

    def highest_queue_id(self) -> int:
        """Highest id of a durable queue with records here; 0 for none."""
        with self._environment.begin(buffers=True) as txn:
            return highest_queue_id(txn)

    def pending_deletions(self) -> set[int]:
        """Ids of deleted durable queues that still have records here."""
        with self._environment.begin(buffers=True) as txn:
            ids = {number_of(key) for key, _value in records(txn, DELETION)}
        return {queue_id for queue_id in ids if queue_id < TRANSIENT_QUEUE}

    def delete_queues(self, queue_ids: Iterable[int]) -> None:
        """Delete the records of queues. Ids without records are ignored."""
        with self._environment.begin(buffers=True) as txn:
            held = [
                queue_id for queue_id in queue_ids if next(records(txn, number_key(LANE, queue_id)), None) is not None
            ]

        if held:
            self._lmdb.delete_queues(held)

    # Writing: one thread at a time

    def commit(self, batch: SealedBatch, *, to_journal: bool = True) -> bool:
        """Write a batch, all of it or nothing, and sync it. True if it is in the journal, False if it is in LMDB.

        With `to_journal`, and room in the journal, it goes there; else to LMDB, together with all that LMDB lacks.
        Raises StoreFull if nothing was written and the same batch may be tried again: the file is as large as before.
        Raises StoreFailed if the outcome is unknown.
        """
        if to_journal and self.commit_to_journal(batch):
            return True
        began = time.perf_counter()
        self.catch_up(batch)
        self.io.committed(batch, began)
        return False

    def commit_to_journal(self, batch: SealedBatch) -> bool:
        """Commit a batch by the journal alone; LMDB gets it with `catch_up`.

        False, with nothing done, if it has to go to LMDB.
        """
        began = time.perf_counter()
        if not self.journal.take(batch):
            return False
        self.io.journaled(batch, began, self.journal.last_write)
        return True

    def catch_up(self, batch: SealedBatch | None = None) -> None:
        """Apply the journal's batches to LMDB in one commit. Raises as `commit` does.

        Without `batch`, other batches may be committed to the journal meanwhile. With one, which goes to LMDB together
        with the rest, none may be.
        """
        journal = self.journal
        if not journal.make_parcel(everything=batch is not None) and batch is None:
            return
        assert not self.catching_up, "LMDB has one writer: a batch must wait while it catches up"
        self.catching_up = True
        writes, mark = journal.parcel(batch)
        try:
            self._lmdb.write(writes, mark)
        except StoreError:
            journal.take_parcel_back()
            raise
        finally:
            self.catching_up = False
        journal.parcel_applied(mark)
        on_durable = journal.on_durable  # the event loop may take it away
        if batch is not None and on_durable is not None:
            on_durable(batch, journal.number, b"")

    def take_away(self) -> None:
        """Apply the removals of the journal to LMDB, and nothing else: that makes room. Raises as `commit` does.

        The journal keeps its batches. A start would apply the removals again, which changes nothing.
        """
        taken = removals(self.journal.unapplied())
        if not taken.empty:
            self._lmdb.write(taken, None)

    def reclaim(self, budget_records: int = 256) -> bool:
        """Remove up to about `budget_records` dead records in a commit.

        True while more remain. Raises as `commit` does.
        """
        return self._lmdb.reclaim(budget_records)

    def make_freed_pages_free(self) -> None:
        """Commit next to nothing: LMDB reuses pages that a transaction frees only one transaction later."""
        self._lmdb.write_identity(StoreIdentity(self.uuid, self.boot))

    def take_over(self, directory: Path) -> None:
        """Replace all contents by those of a copy of a store, and begin a boot above the boots of both. Synced.

        All or nothing. Nothing else may be written or read meanwhile. Raises as `commit` does; StoreIncompatible or
        StoreCorrupt if the copy is not a store.
        """
        copy = lmdb_environment.check_identity(directory, None)
        boot = max(self.boot, copy.boot) + 1
        everything = self._environment.open_db()
        try:
            with (
                lmdb_environment.open_environment(directory, readonly=True) as copied,
                copied.begin(buffers=True) as found,
                self._environment.begin(write=True, buffers=True) as txn,
            ):
                unapplied = unapplied_in_journal(directory, copied, copy)
                if unapplied.batches or unapplied.lost is not None:
                    raise StoreIncompatible(
                        f"{directory} is of a broker that was killed: start and stop one there first"
                    )
                # One transaction from here on: a crash leaves all of the old contents or all of the new.
                txn.drop(everything, delete=False)
                txn.cursor().putmulti(found.cursor(), append=True)
                txn.delete(LAST_EVENT)
                txn.put(JOURNAL_MARK, NO_BATCH_YET.encode())
                txn.put(ORIGIN, self.origin.encode())
                txn.put(IDENTITY, StoreIdentity(self.uuid, boot).encode())
                # As at a start: records may be damaged, and transient data of the copy's boots is dead.
                repair(txn, boot, recount=False)
                stepwise_deletion.begin_boot(txn, boot)
        except lmdb.Error as error:
            raise self._classifier.classify(error) from error
        self.boot, self.last_event = boot, None
        self.journal.begin_boot(boot)
        self._lmdb.begin_boot(boot)

    def forget_backup(self) -> None:
        """Note that the definitions were opened too: the store is not a backup any more. Raises as `commit` does."""
        self.origin = self.origin._replace(backup=NEVER_RESTORED.backup)
        self._lmdb.write_origin(self.origin)

    # Reading: any thread

    def read(
        self, queue_id: int, lane: int, after: int, before: int, max_messages: int, max_bytes: int
    ) -> list[StoredMessage]:
        """Read live messages between two positions, both exclusive, ascending: at least one, if there is any.

        Stops at `max_messages`, or when bodies and headers reach `max_bytes`.
        """
        if queue_id >= TRANSIENT_QUEUE:
            # Ids of transient queues are reused in each boot: records of an earlier boot belong to another queue.
            after = max(after, (self.boot << COUNTER_BITS) - 1)
        started = time.perf_counter()
        with self._reading(queue_id, lane, after, before) as reader:
            found, size = reader.read(after, before, max_messages, max_bytes)
        self.io.read(time.perf_counter() - started, len(found), size)
        return found

    def fetch(self, queue_id: int, lane: int, positions: Sequence[int]) -> list[StoredMessage]:
        """Read the live messages at these positions, which ascend. Positions without one are missing in the result."""
        if not positions:
            return []
        assert positions[0] <= positions[-1], "positions ascend"
        started = time.perf_counter()
        with self._reading(queue_id, lane, positions[0] - 1, positions[-1] + 1) as reader:
            found = list(reader.at(positions))
        size = sum(len(message.body) + len(message.header) for message in found)
        self.io.read(time.perf_counter() - started, len(found), size)
        return found

    def waiting(self, queue_id: int, lane: int, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """Read due times of delayed messages between two positions, both exclusive; ascending in position.

        At least one, if there is any; about `max_messages`, since segments are read whole.
        """
        with self._reading(queue_id, lane, after, before) as reader:
            return reader.waiting(after, before, max_messages)

    def statistics(self) -> StoreStatistics:
        """Return the present figures of the store."""
        return StoreStatistics(
            self._environment.stat()["entries"],
            (self.directory / "data.mdb").stat().st_size,
            live_bytes(self._environment),
            self.io.commits,
            self.io.last_commit_seconds,
            self._lmdb.set_aside_done,
        )

    def copy_to(self, target: Path | int) -> None:
        """Write a consistent, compact copy of the LMDB environment into an existing directory, or into a descriptor.

        From any thread. Raises lmdb.Error, also if the other end of a socket was shut down.
        """
        if isinstance(target, int):
            self._environment.copyfd(target, compact=True)
        else:
            self._environment.copy(str(target), compact=True)

    # Inside

    @contextmanager
    def _reading(self, queue_id: int, lane: int, after: int, before: int) -> Iterator[LaneReader]:
        """Read a lane as it was last committed. LMDB keeps all pages that an open reader can see: leave it soon."""
        view = self.journal.view(queue_id, lane, after, before)  # before the transaction, see `Journal.view`
        with self._environment.begin(buffers=True) as txn:
            reader = LaneReader(txn, queue_id, lane, view)
            yield reader
        for record in reader.corrupt:
            place = (record.queue_id, record.lane, record.position)
            if place not in self._lmdb.set_aside:
                self._lmdb.set_aside[place] = record
                self.corrupt.append(record)


def _last_event(txn: lmdb.Transaction[memoryview]) -> NumberInBoot | None:
    record = txn.get(LAST_EVENT)
    try:
        return None if record is None else NumberInBoot.decode(record, "the last event")
    except StoreCorrupt:
        return None
