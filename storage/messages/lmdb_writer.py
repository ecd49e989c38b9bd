"""Write transactions of the message store's LMDB environment: batches, and steps that remove dead records.

One thread at a time writes. A transaction is one whole batch or one step, synced before its result is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
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
"""Dead records that each commit removes as well, so that a busy store gets rid of them too."""

Result = TypeVar("Result")


@final
class LmdbWriter:
    """Writes for one boot. No lane holds a message at position `above` or higher that this object has not written.

    `corrupt`: records that could not be read, to be taken from the left end. `set_aside`: records that readers could
    not read, by queue, lane and position; the next transaction takes them out of their lanes and keeps their bytes.
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
        """True once a transaction has failed with an unknown outcome."""
        self.corrupt: deque[CorruptRecord] = deque()
        self.set_aside: dict[tuple[int, int, int], CorruptRecord] = {}
        self.set_aside_done = 0
        self._highest: dict[int, dict[int, int]] = {}
        self._marked: set[tuple[int, int]] = set()
        with environment.begin(buffers=True) as txn:
            self._reclaiming = stepwise_deletion.pending(txn)

    def begin_boot(self, boot: int) -> None:
        """Forget all that is cached of the environment: another boot begins, with other contents."""
        self._boot, self._above = boot, boot << COUNTER_BITS
        for remembered in (self._highest, self._marked, self.set_aside, self.corrupt):
            remembered.clear()
        with self._environment.begin(buffers=True) as txn:
            self._reclaiming = stepwise_deletion.pending(txn)

    def close(self) -> None:
        """Close the file by which writes are counted."""
        self.io.close()

    def write(self, batch: SealedBatch, mark: JournalMark | None) -> None:
        """Write a batch, all of it or nothing, and sync it.

        `mark` says how much of the journal LMDB has with this batch; None: as much as before.
        Raises StoreFull if nothing was written and the same batch may be tried again; the file has its size of before.
        Raises StoreFailed if the outcome is unknown.
        """
        marked, self._reclaiming = retry_once(self._transaction, partial(self._write_batch, batch, mark))
        self._marked.update(marked)
        self._remember(batch)

    def delete_queues(self, queue_ids: list[int]) -> None:
        """Declare everything of these queues dead. Raises as `write` does."""

        def delete(writer: MessageWriter) -> None:
            for queue_id in queue_ids:
                stepwise_deletion.delete_queue(writer, queue_id)

        retry_once(self._transaction, delete)
        self._reclaiming = True

    def reclaim(self, budget_records: int) -> bool:
        """Remove up to about `budget_records` dead records. True while more remain. Raises as `write` does."""
        if not self._reclaiming and not self.set_aside:
            return False
        self._reclaiming = retry_once(self._transaction, lambda writer: stepwise_deletion.step(writer, budget_records))
        return self._reclaiming

    def write_mark(self, mark: JournalMark) -> None:
        """Write the journal's mark alone. Raises as `write` does."""
        retry_once(self._transaction, lambda writer: writer.txn.put(JOURNAL_MARK, mark.encode()))

    def write_origin(self, origin: StoreOrigin) -> None:
        """Write the store's origin. Raises as `write` does."""
        retry_once(self._transaction, lambda writer: writer.txn.put(ORIGIN, origin.encode()))

    def write_identity(self, identity: StoreIdentity) -> None:
        """Commit next to nothing: LMDB reuses pages that a transaction frees only one transaction later."""
        retry_once(self._transaction, lambda writer: writer.txn.put(IDENTITY, identity.encode()))

    def _transaction(self, work: Callable[[MessageWriter], Result]) -> Result:
        """Run `work` in one write transaction, which is committed and synced. Unreadable records are set aside first.

        Raises StoreFull and StoreFailed.
        """
        taken = tuple(self.set_aside.values())
        try:
            with self.io.writing() as transaction, self._environment.begin(write=True, buffers=True) as txn:
                writer = MessageWriter(txn, self._boot)
                for record in taken:
                    writer.set_aside(record)
                result = work(writer)
                writer.finish()
                transaction.fill()
        except lmdb.Error as error:
            raise self._failed(error) from error
        # Only now: after a failed transaction the records are still in their lanes, and the next one takes them out.
        self.set_aside_done += len(taken) + len(writer.corrupt)
        for record in taken:
            del self.set_aside[(record.queue_id, record.lane, record.position)]
        self.corrupt.extend(writer.corrupt)
        return result

    def _failed(self, error: lmdb.Error) -> StoreError:
        """Return the error that a failed transaction means. After a full disk, cut the file back to its size of before.

        It is returned and not kept in a variable of the frame that raises it: that would be a cycle, which holds the
        batch in memory until Python looks for cycles.
        """
        failure = self._classifier.classify(error)
        self.failed |= isinstance(failure, StoreFailed) and not isinstance(failure, StoreCutShort)
        if isinstance(failure, StoreFull):
            self._space.cut_back()
        return failure

    def _write_batch(
        self, batch: SealedBatch, mark: JournalMark | None, writer: MessageWriter
    ) -> tuple[list[tuple[int, int]], bool]:
        """Write a batch. Returns the lanes marked as holding transient messages, and whether dead records remain."""
        marked = [(lane.queue_id, lane.lane) for lane in batch.lanes if self._write_lane(writer, lane)]
        for place in marked:
            stepwise_deletion.mark_transient(writer, *place)
        for segment in batch.closed_segments:
            stream_index.close_segment(writer, segment)
        # Behind the closed segments: a purge forgets those below its floor, the ones of this batch included.
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
            # They should be in order already; out of order they could not be found again.
            kinds = writer.put(*place, sorted(lane.puts, key=itemgetter(0)), highest)
        if finished := lane.finished:
            writer.settle(*place, finished)
        if lane.deliveries:
            writer.count_deliveries(*place, lane.deliveries)
        writer.txn.put(lane_key(LANE, *place), encode_counters(lane.counters))
        return bool(kinds & TRANSIENT) and lane.queue_id < TRANSIENT_QUEUE and place not in self._marked

    def _remember(self, batch: SealedBatch) -> None:
        """Note the highest position of each lane, now that the batch is on disk."""
        for lane in batch.lanes:
            if lane.puts:
                highest = self._highest.setdefault(lane.queue_id, {})
                highest[lane.lane] = max(max(lane.puts, key=itemgetter(0))[0], highest.get(lane.lane, 0))
        for queue_id in batch.deleted_queues:
            for lane_number in self._highest.pop(queue_id, ()):
                self._marked.discard((queue_id, lane_number))
