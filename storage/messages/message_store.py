"""The message store: every queue's messages on disk, in one LMDB environment.

A queue is a number here, and has lanes (one per priority); a message is bytes at a position of a lane. One thread
writes: it commits sealed batches, each in one transaction with one sync, and clears away what is dead in between.
Any thread may read: readers see the last commit. docs/storage-format.md has the layout.
"""

from __future__ import annotations

import os
import time
import uuid as uuids
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, final

import lmdb

from storage.batch import (
    COUNTER_BITS,
    TRANSIENT_QUEUE,
    LaneState,
    SealedBatch,
    SealedLane,
    StoredMessage,
    WaitingMessage,
)
from storage.commit_failures import FailureClassifier, retry_once
from storage.messages import lmdb_environment, reclaim, stream_index
from storage.messages.batch_writer import Changes, CorruptRecord
from storage.messages.key_lookup import records
from storage.messages.keys import (
    DELETION,
    IDENTITY,
    LANE,
    LAST_EVENT,
    SEGMENT,
    lane_key,
    lane_of,
    number_key,
    number_of,
)
from storage.messages.lane_reader import LaneReader
from storage.messages.records import Identity, LastEvent, decode_counters, encode_counters
from storage.messages.segments import TRANSIENT
from storage.messages.start_repair import repair
from storage.messages.store_io import StoreIo
from storage.space import ballast
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCorrupt, StoreError, StoreFull, StoreIncompatible

RECLAIM_WITH_COMMIT = 16
"""How many dead records a commit clears away on its way, so that a busy store gets rid of them too."""


class StoreStatistics(NamedTuple):
    """The store at one moment. `live_bytes` are pages in use, the rest of `file_bytes` is free for new records."""

    entries: int
    file_bytes: int
    live_bytes: int
    commits: int
    last_commit_seconds: float
    set_aside: int


@final
class MessageStore:
    """Messages on disk. Made by `open`; one at a time for a directory.

    `corrupt` has what could not be read, to be taken from its left end: reading threads and the writing one add to it
    meanwhile. The store takes those records out of their lanes with its next commit and keeps their bytes; the queue
    has to subtract them from its counters.
    `space` is its room on the disk, `io` counts what is written and read.
    """

    def __init__(
        self,
        directory: Path,
        environment: lmdb.Environment,
        identity: Identity,
        classifier: FailureClassifier,
        space: StoreSpace,
        lock: int,
    ) -> None:
        self.directory = directory
        self.uuid = identity.uuid
        self.boot = identity.boot
        self.corrupt: deque[CorruptRecord] = deque()
        self.streams = stream_index.Streams(environment)
        self._environment = environment
        self._classifier = classifier
        self.space = space
        self.io = StoreIo()
        self._lock = lock
        self._set_aside: dict[tuple[int, int, int], CorruptRecord] = {}
        self._set_aside_done = 0
        self._highest: dict[int, dict[int, int]] = {}
        self._marked: set[tuple[int, int]] = set()
        self._commits = 0
        self._last_commit_seconds = 0.0
        with environment.begin(buffers=True) as txn:
            self._reclaiming = reclaim.pending(txn)
            self.last_event = _last_event(txn)
            """The last event that was recorded before a commit of an earlier boot; None where none were."""

    # Opening and closing

    @classmethod
    def open(
        cls, directory: Path, *, store_uuid: bytes | None = None, compact: bool = True, create: bool = True
    ) -> MessageStore:
        """Open the store in a directory, or make it there; count the boot, and sync that before returning.

        `store_uuid` (16 bytes) must be the store's owner. Messages that end with their boot are dead from here
        on. Raises StoreLocked, StoreIncompatible and StoreCorrupt, each before anything was changed; StoreFull; and
        StoreError when the system refuses.
        """
        lock = lmdb_environment.lock(directory)
        try:
            return _open(directory, lock, store_uuid, compact=compact, create=create)
        except (OSError, lmdb.Error) as error:
            os.close(lock)
            raise StoreError(
                f"{directory} cannot be opened ({error}): see that this user may read and write there"
            ) from error
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        """Let go of the store. Nothing is left to write: what was committed is on disk."""
        self._environment.close()
        self.io.close()
        self._classifier.close()
        self.space.close()
        os.close(self._lock)

    def __enter__(self) -> MessageStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What a start needs to know

    def lanes(self) -> dict[int, dict[int, LaneState]]:
        """The counters of every lane of every queue that is not being deleted, as they were last committed."""
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
        """The highest id of a durable queue that has left anything here; 0 for none."""
        with self._environment.begin() as txn:
            return max(_highest_number(txn, kind) for kind in (LANE, SEGMENT, DELETION))

    def pending_deletions(self) -> set[int]:
        """Durable queues that were deleted and still have records here."""
        with self._environment.begin(buffers=True) as txn:
            ids = {number_of(key) for key, _value in records(txn, DELETION)}
        return {queue_id for queue_id in ids if queue_id < TRANSIENT_QUEUE}

    def delete_queues(self, queue_ids: Iterable[int]) -> None:
        """Delete what queues have left here. Ids of which nothing is here cost nothing."""
        with self._environment.begin(buffers=True) as txn:
            held = [
                queue_id for queue_id in queue_ids if next(records(txn, number_key(LANE, queue_id)), None) is not None
            ]

        def delete() -> None:
            with self._writing() as changes:
                for queue_id in held:
                    reclaim.delete_queue(changes, queue_id)

        if held:
            retry_once(delete)
            self._reclaiming = True

    # Writing: one thread at a time

    def commit(self, batch: SealedBatch) -> None:
        """Write a batch, all of it or nothing, and sync it.

        Raises StoreFull when nothing was written and the same batch may be tried again: the file is as large as before.
        Raises StoreFailed when the outcome is unknown.
        """
        started = time.perf_counter()
        marked, self._reclaiming = retry_once(lambda: self._write(batch))
        self._marked.update(marked)
        self._remember(batch)
        self._commits += 1
        self._last_commit_seconds = time.perf_counter() - started
        self.io.committed(sum(len(lane.puts) for lane in batch.lanes), self._last_commit_seconds)

    def reclaim(self, budget_records: int = 256) -> bool:
        """Clear away some of what is dead, in a commit of its own. True while more remains; raises as `commit` does."""
        if not self._reclaiming and not self._set_aside:
            return False

        def step() -> bool:
            with self._writing() as changes:
                return reclaim.step(changes, budget_records)

        self._reclaiming = retry_once(step)
        return self._reclaiming

    def make_freed_pages_free(self) -> None:
        """Write next to nothing: what the commit before has freed is free for others only after one more."""

        def write() -> None:
            with self._writing() as changes:
                changes.txn.put(IDENTITY, Identity(self.uuid, self.boot).encode())

        retry_once(write)

    def take_over(self, directory: Path) -> None:
        """Hold what a copy of a store holds in place of everything here, in a boot later than all of both; synced.

        All or nothing. Nothing else may be written or read meanwhile. Raises as `commit` does, and StoreIncompatible
        or StoreCorrupt for what is no store.
        """
        boot = max(self.boot, lmdb_environment.check_identity(directory, None).boot) + 1
        everything = self._environment.open_db()
        try:
            with (
                lmdb_environment.open_environment(directory, readonly=True) as copied,
                copied.begin(buffers=True) as found,
                self._environment.begin(write=True, buffers=True) as txn,
            ):
                txn.drop(everything, delete=False)
                txn.cursor().putmulti(found.cursor(), append=True)
                txn.delete(LAST_EVENT)
                txn.put(IDENTITY, Identity(self.uuid, boot).encode())
                repair(txn, boot)
                reclaim.begin_boot(txn, boot)
                self._reclaiming = reclaim.pending(txn)
        except lmdb.Error as error:
            raise self._classifier.classify(error) from error
        self.boot, self.last_event = boot, None
        for remembered in (self._highest, self._marked, self._set_aside, self.corrupt):
            remembered.clear()

    # Reading: any thread

    def read(
        self, queue_id: int, lane: int, after: int, before: int, max_messages: int, max_bytes: int
    ) -> list[StoredMessage]:
        """Live messages between two positions, both exclusive, ascending: at least one, if there is any.

        Stops at `max_messages`, or when bodies and headers reach `max_bytes`.
        """
        found: list[StoredMessage] = []
        if queue_id >= TRANSIENT_QUEUE:
            # Ids of transient queues are given anew in each boot; what an earlier boot left is not ours.
            after = max(after, (self.boot << COUNTER_BITS) - 1)
        size, started = 0, time.perf_counter()
        with self._reading(queue_id, lane) as reader:
            for message in reader.between(after, before) if max_messages > 0 else ():
                found.append(message)
                size += len(message.body) + len(message.header)
                if len(found) >= max_messages or size >= max_bytes:
                    break
        self.io.read(time.perf_counter() - started, len(found), size)
        return found

    def fetch(self, queue_id: int, lane: int, positions: Sequence[int]) -> list[StoredMessage]:
        """The live messages at these positions, which ascend. Those not here are missing from the answer."""
        started = time.perf_counter()
        with self._reading(queue_id, lane) as reader:
            found = list(reader.at(positions))
        size = sum(len(message.body) + len(message.header) for message in found)
        self.io.read(time.perf_counter() - started, len(found), size)
        return found

    def waiting(self, queue_id: int, lane: int, after: int, before: int, max_messages: int) -> list[WaitingMessage]:
        """When the delayed messages between two positions, both exclusive, are due; ascending in position.

        At least one, if there is any; about `max_messages`, since segments are read whole.
        """
        with self._reading(queue_id, lane) as reader:
            return reader.waiting(after, before, max_messages)

    def statistics(self) -> StoreStatistics:
        """The store's size and speed at this moment."""
        return StoreStatistics(
            self._environment.stat()["entries"],
            (self.directory / "data.mdb").stat().st_size,
            lmdb_environment.live_bytes(self._environment),
            self._commits,
            self._last_commit_seconds,
            self._set_aside_done,
        )

    def copy_to(self, directory: Path) -> None:
        """Write a consistent, compact copy of the LMDB environment into an existing directory. From any thread."""
        self._environment.copy(str(directory), compact=True)

    # Inside

    @contextmanager
    def _reading(self, queue_id: int, lane: int) -> Iterator[LaneReader]:
        """A lane as it was last committed. LMDB keeps pages that a reader can see, so none may stay open."""
        with self._environment.begin(buffers=True) as txn:
            reader = LaneReader(txn, queue_id, lane)
            yield reader
        for record in reader.corrupt:
            place = (record.queue_id, record.lane, record.position)
            if place not in self._set_aside:
                self._set_aside[place] = record
                self.corrupt.append(record)

    @contextmanager
    def _writing(self) -> Iterator[Changes]:
        """One write transaction, committed and synced at the end. What could not be read is set aside first."""
        taken = tuple(self._set_aside.values())
        try:
            with self.io.writing() as transaction, self._environment.begin(write=True, buffers=True) as txn:
                changes = Changes(txn, self.boot)
                for record in taken:
                    changes.set_aside(record)
                yield changes
                changes.finish()
                transaction.fill()
        except lmdb.Error as error:
            failure = self._classifier.classify(error)
            if isinstance(failure, StoreFull):
                self.space.cut_back()
            raise failure from error
        self._set_aside_done += len(taken)
        for record in taken:
            del self._set_aside[(record.queue_id, record.lane, record.position)]
        self._set_aside_done += len(changes.corrupt)
        self.corrupt.extend(changes.corrupt)

    def _write(self, batch: SealedBatch) -> tuple[list[tuple[int, int]], bool]:
        """Commit a batch: the lanes that were marked as holding transient messages, and whether more is to reclaim."""
        with self._writing() as changes:
            marked = [(lane.queue_id, lane.lane) for lane in batch.lanes if self._write_lane(changes, lane)]
            for place in marked:
                reclaim.mark_transient(changes, *place)
            for segment in batch.closed_segments:
                stream_index.close_segment(changes, segment)
            for purge in batch.purges:
                reclaim.purge(changes, purge)
            for queue_id in batch.deleted_queues:
                reclaim.delete_queue(changes, queue_id)
            if batch.last_event:
                changes.txn.put(LAST_EVENT, LastEvent(self.boot, batch.last_event).encode())
            reclaiming = self._reclaiming or bool(batch.purges or batch.deleted_queues)
            if reclaiming:
                reclaiming = reclaim.step(changes, RECLAIM_WITH_COMMIT)
        return marked, reclaiming

    def _write_lane(self, changes: Changes, lane: SealedLane) -> bool:
        """Write one lane's share of a batch. True when the lane must be marked as holding transient messages."""
        place, kinds = (lane.queue_id, lane.lane), 0
        if lane.puts:
            highest = self._highest.get(lane.queue_id, {}).get(lane.lane, self.boot << COUNTER_BITS)
            # In order they should be already; out of order they could not be found again.
            kinds = changes.put(*place, sorted(lane.puts, key=itemgetter(0)), highest)
        if finished := lane.finished:
            changes.settle(*place, finished)
        if lane.deliveries:
            changes.count_deliveries(*place, lane.deliveries)
        changes.txn.put(lane_key(LANE, *place), encode_counters(lane.counters))
        return bool(kinds & TRANSIENT) and lane.queue_id < TRANSIENT_QUEUE and place not in self._marked

    def _remember(self, batch: SealedBatch) -> None:
        """The highest position of each lane, now that the batch is on disk."""
        for lane in batch.lanes:
            if lane.puts:
                highest = self._highest.setdefault(lane.queue_id, {})
                highest[lane.lane] = max(max(lane.puts, key=itemgetter(0))[0], highest.get(lane.lane, 0))
        for queue_id in batch.deleted_queues:
            for lane_number in self._highest.pop(queue_id, ()):
                self._marked.discard((queue_id, lane_number))


def _open(directory: Path, lock: int, uuid: bytes | None, *, compact: bool, create: bool) -> MessageStore:
    """Open the store that a lock is held of."""
    if not lmdb_environment.exists(directory):
        if not create:
            raise StoreIncompatible(f"{directory} does not exist, although it should: restore it from a backup")
        lmdb_environment.create(directory, uuid or uuids.uuid4().bytes)
    identity = lmdb_environment.check_identity(directory, uuid)
    lmdb_environment.cut_back(directory)
    if compact:
        lmdb_environment.compact_if_worth_it(directory)
    with ExitStack() as undo:
        environment = undo.enter_context(lmdb_environment.open_environment(directory))
        classifier = undo.enter_context(closing(FailureClassifier(directory)))
        space = undo.enter_context(closing(StoreSpace(directory, environment)))
        identity = identity._replace(boot=identity.boot + 1)
        _begin_boot(environment, classifier, identity, directory)
        store = MessageStore(directory, environment, identity, classifier, space, lock)
        space.restore_ballast()
        undo.pop_all()
        return store


def _begin_boot(
    environment: lmdb.Environment, classifier: FailureClassifier, identity: Identity, directory: Path
) -> None:
    """Count the boot. On a full disk with what the ballast gives: consumers can make room only in a running broker."""
    try:
        retry_once(lambda: _count_boot(environment, classifier, identity))
    except StoreFull:
        if not ballast.release(directory):
            raise
        retry_once(lambda: _count_boot(environment, classifier, identity))


def _count_boot(environment: lmdb.Environment, classifier: FailureClassifier, identity: Identity) -> None:
    try:
        with environment.begin(write=True, buffers=True) as txn:
            txn.put(IDENTITY, identity.encode())
            repair(txn, identity.boot)
            reclaim.begin_boot(txn, identity.boot)
    except lmdb.Error as error:
        raise classifier.classify(error) from error


def _last_event(txn: lmdb.Transaction[memoryview]) -> LastEvent | None:
    record = txn.get(LAST_EVENT)
    try:
        return None if record is None else LastEvent.decode(record)
    except StoreCorrupt:
        return None


def _highest_number(txn: lmdb.Transaction[bytes], kind: bytes) -> int:
    cursor = txn.cursor()
    found = cursor.set_range(number_key(kind, TRANSIENT_QUEUE))
    found = cursor.prev() if found else cursor.last()
    return number_of(cursor.key()) if found and cursor.key().startswith(kind) else 0
