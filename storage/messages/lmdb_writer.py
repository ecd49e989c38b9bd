"""Write transactions of the message store's LMDB environment: batches, and steps that clear away what is dead.

One thread at a time writes. A transaction is one whole batch or one step, synced before its result is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from typing import TypeVar, final

import lmdb

from storage.batch import COUNTER_BITS, TRANSIENT_QUEUE, SealedBatch, SealedLane
from storage.commit_failures import FailureClassifier, retry_once
from storage.journal.journal_mark import JournalMark
from storage.messages import stepwise_deletion, stream_index
from storage.messages.keys import IDENTITY, JOURNAL_MARK, LANE, LAST_EVENT, ORIGIN, lane_key
from storage.messages.message_segments import TRANSIENT
from storage.messages.message_writer import CorruptRecord, MessageWriter
from storage.messages.small_records import NumberInBoot, StoreIdentity, encode_counters
from storage.messages.store_io import StoreIo
from storage.messages.store_origin import StoreOrigin
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreCutShort, StoreError, StoreFailed, StoreFull

RECLAIM_WITH_COMMIT = 16
"""How many dead records a commit clears away on its way, so that a busy store gets rid of them too."""

Result = TypeVar("Result")


@final
class LmdbWriter:
    """Writes for one boot. `above`: from this position on no lane holds anything but what is written by this object.

    `corrupt` has what could not be read, to be taken from its left end. `set_aside` is what readers could not read:
    those records are taken out of their lanes with the next transaction, their bytes are kept.
    """

    def __init__(
        self, environment: lmdb.Environment, classifier: FailureClassifier, space: StoreSpace, boot: int, above: int
    ) -> None:
        self._environment = environment
        self._classifier = classifier
        self._space = space
        self._boot = boot
        self._above = above
        self.io = StoreIo()
        self.failed = False
        """A transaction failed, and its outcome is unknown."""
        self.corrupt: deque[CorruptRecord] = deque()
        self.set_aside: dict[tuple[int, int, int], CorruptRecord] = {}
        self.set_aside_done = 0
        self._highest: dict[int, dict[int, int]] = {}
        self._marked: set[tuple[int, int]] = set()
        with environment.begin(buffers=True) as txn:
            self._reclaiming = stepwise_deletion.pending(txn)

    def begin_boot(self, boot: int) -> None:
        """Forget what was remembered of the environment: another boot begins, with other contents."""
        self._boot, self._above = boot, boot << COUNTER_BITS
        for remembered in (self._highest, self._marked, self.set_aside, self.corrupt):
            remembered.clear()
        with self._environment.begin(buffers=True) as txn:
            self._reclaiming = stepwise_deletion.pending(txn)

    def close(self) -> None:
        """Let go of what the system is asked by."""
        self.io.close()

    def write(self, batch: SealedBatch, mark: JournalMark | None) -> None:
        """Write a batch, all of it or nothing, and sync it: with it LMDB has as much of the journal as `mark` says.

        None: as much as before.

        Raises StoreFull when nothing was written and the same batch may be tried again: the file is as large as before.
        Raises StoreFailed when the outcome is unknown.
        """
        marked, self._reclaiming = retry_once(lambda: self._write(batch, mark))
        self._marked.update(marked)
        self._remember(batch)

    def delete_queues(self, queue_ids: list[int]) -> None:
        """Everything of these queues is dead from now on. Raises as `write` does."""

        def delete(writer: MessageWriter) -> None:
            for queue_id in queue_ids:
                stepwise_deletion.delete_queue(writer, queue_id)

        self._step(delete)
        self._reclaiming = True

    def reclaim(self, budget_records: int) -> bool:
        """Clear away some of what is dead. True while more remains; raises as `write` does."""
        if not self._reclaiming and not self.set_aside:
            return False
        self._reclaiming = self._step(lambda writer: stepwise_deletion.step(writer, budget_records))
        return self._reclaiming

    def write_mark(self, mark: JournalMark) -> None:
        """Set the journal's mark alone. Raises as `write` does."""
        self._step(lambda writer: writer.txn.put(JOURNAL_MARK, mark.encode()))

    def write_origin(self, origin: StoreOrigin) -> None:
        """Write where the store comes from. Raises as `write` does."""
        self._step(lambda writer: writer.txn.put(ORIGIN, origin.encode()))

    def write_identity(self, identity: StoreIdentity) -> None:
        """Write next to nothing: what the commit before has freed is free for others only after one more."""
        self._step(lambda writer: writer.txn.put(IDENTITY, identity.encode()))

    def _step(self, work: Callable[[MessageWriter], Result]) -> Result:
        def attempt() -> Result:
            with self._writing() as writer:
                return work(writer)

        return retry_once(attempt)

    @contextmanager
    def _writing(self) -> Iterator[MessageWriter]:
        """One write transaction, committed and synced at the end. What could not be read is set aside first."""
        taken = tuple(self.set_aside.values())
        try:
            with self.io.writing() as transaction, self._environment.begin(write=True, buffers=True) as txn:
                writer = MessageWriter(txn, self._boot)
                for record in taken:
                    writer.set_aside(record)
                yield writer
                writer.finish()
                transaction.fill()
        except lmdb.Error as error:
            raise self._failed(error) from error
        self.set_aside_done += len(taken)
        for record in taken:
            del self.set_aside[(record.queue_id, record.lane, record.position)]
        self.set_aside_done += len(writer.corrupt)
        self.corrupt.extend(writer.corrupt)

    def _failed(self, error: lmdb.Error) -> StoreError:
        """What a failed transaction means. After a full disk the file is as large as before.

        A variable of the frame that raises it would be a cycle, which holds the batch until Python looks for cycles.
        """
        failure = self._classifier.classify(error)
        self.failed |= isinstance(failure, StoreFailed) and not isinstance(failure, StoreCutShort)
        if isinstance(failure, StoreFull):
            self._space.cut_back()
        return failure

    def _write(self, batch: SealedBatch, mark: JournalMark | None) -> tuple[list[tuple[int, int]], bool]:
        """Commit a batch: the lanes that were marked as holding transient messages, and whether more is to stepwise_deletion."""
        with self._writing() as writer:
            marked = [(lane.queue_id, lane.lane) for lane in batch.lanes if self._write_lane(writer, lane)]
            for place in marked:
                stepwise_deletion.mark_transient(writer, *place)
            for segment in batch.closed_segments:
                stream_index.close_segment(writer, segment)
            for purge in batch.purges:
                stepwise_deletion.purge(writer, purge)
            for queue_id in batch.deleted_queues:
                stepwise_deletion.delete_queue(writer, queue_id)
            if batch.last_event:
                writer.txn.put(LAST_EVENT, NumberInBoot(self._boot, batch.last_event).encode())
            if mark is not None:
                writer.txn.put(JOURNAL_MARK, mark.encode())
            reclaiming = self._reclaiming or bool(batch.purges or batch.deleted_queues)
            if reclaiming:
                reclaiming = stepwise_deletion.step(writer, RECLAIM_WITH_COMMIT)
        return marked, reclaiming

    def _write_lane(self, writer: MessageWriter, lane: SealedLane) -> bool:
        """Write one lane's share of a batch. True when the lane must be marked as holding transient messages."""
        place, kinds = (lane.queue_id, lane.lane), 0
        if lane.puts:
            highest = self._highest.get(lane.queue_id, {}).get(lane.lane, self._above)
            # In order they should be already; out of order they could not be found again.
            kinds = writer.put(*place, sorted(lane.puts, key=itemgetter(0)), highest)
        if finished := lane.finished:
            writer.settle(*place, finished)
        if lane.deliveries:
            writer.count_deliveries(*place, lane.deliveries)
        writer.txn.put(lane_key(LANE, *place), encode_counters(lane.counters))
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
