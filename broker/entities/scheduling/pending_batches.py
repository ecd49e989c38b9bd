"""The open batch, and the sealed ones that wait for the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from broker.entities.scheduling.future import Future
from storage.batch import SealedBatch, Waiter, WriteBatch

SEALED_MAX = 2
"""With more sealed batches than this, even small background work waits for the disk."""


WORK_SHARE = 4
"""Background work stops once the open batch has 1/WORK_SHARE of `lazy_bytes_max`: confirms of others wait for the batch
in flight and for the open one."""


class EventSource(Protocol):
    """The recorder of the event log, whose events are handed over before their batch is stored."""

    last_event: int

    def flush(self) -> None:
        """Hand over the gathered records."""


class HeldWaits(Protocol):
    """Waiters of batches that are on this disk, and not at a second place yet."""

    def forget(self, waiter: Waiter) -> None:
        """Tell a waiter nothing any more."""


class PendingBatches:
    """All writes of the queues, cut into batches between turns.

    Batches are numbered from 1 and stored in that order. A turn is atomic: all its writes are in one batch. A batch
    without a waiter is sealed at a smaller size, because the next one with a waiter has to wait for it. Work that
    takes several turns and must be atomic keeps the open batch open meanwhile.
    """

    def __init__(self, batch_bytes_max: int, lazy_bytes_max: int, recorder: EventSource | None = None) -> None:
        self._batch_bytes_max = batch_bytes_max
        self._lazy_bytes_max = lazy_bytes_max
        self._recorder = recorder
        self.disk_full = False
        """The last commit failed for want of disk space."""
        self._sealed_bytes = 0
        self._kept_open = 0
        self.urgent = False
        """Returned messages are handled at once, and their settlements stored only with the open batch's puts."""
        self.current = WriteBatch(1)
        self.sealed: deque[SealedBatch] = deque()
        self.held: HeldWaits | None = None
        """Those who wait for a second place as well; None: nobody does."""

    @property
    def crowded(self) -> bool:
        """The disk is behind, or the open batch will keep it busy: background work that writes waits."""
        return self.disk_full or bool(self.sealed) or self.current.bytes >= self._lazy_bytes_max // WORK_SHARE

    @property
    def full(self) -> bool:
        """The disk is far behind: any work that can wait for it waits, even a single step."""
        return self.disk_full or len(self.sealed) > SEALED_MAX or self.current.bytes >= self._batch_bytes_max

    @property
    def overfull(self) -> bool:
        """The open batch is full, and kept open: nothing that can wait may be added."""
        return self._kept_open > 0 and self.current.bytes >= self._batch_bytes_max

    def wait(self, waiter: Waiter) -> int:
        """Notify `waiter` when the open batch is on disk; return its number."""
        self.current.waiters[waiter] = True
        return self.current.number

    def wait_for_removal(self, waiter: Waiter) -> int:
        """Notify `waiter` when the settlements and purges so far are on disk, which a full disk stores before puts."""
        self.current.waiters.setdefault(waiter, False)
        return self.current.number

    def forget(self, waiter: Waiter) -> None:
        """Let go of a waiter whose channel has ended. It may be told of the batches that are not on disk yet."""
        if self.held is not None:
            self.held.forget(waiter)

    def keep_open(self) -> None:
        """Put all writes from now on, over several turns, into one batch, until `release_open`."""
        self._kept_open += 1

    def release_open(self) -> None:
        """End one `keep_open`."""
        self._kept_open -= 1

    @contextmanager
    def nothing_waits(self) -> Iterator[None]:
        """Put everything done in this context into the open batch, even if the disk is far behind."""
        self.urgent = True
        try:
            yield
        finally:
            self.urgent = False

    def seal(self) -> None:
        """Seal the open batch. Its events are handed to the event log first, so that they are never missing there."""
        self._sealed_bytes += self.current.bytes
        last_event = 0
        if self._recorder is not None:
            self._recorder.flush()
            last_event = self._recorder.last_event
        self.sealed.append(self.current.seal(last_event))
        self.current = WriteBatch(self.current.number + 1)

    @property
    def unstored_bytes(self) -> int:
        """Bytes that were put and are not on disk, roughly."""
        return self._sealed_bytes + self.current.bytes

    def stored(self, batch: SealedBatch) -> None:
        """Note that a batch, and all before it, is on disk."""
        self._sealed_bytes -= batch.bytes

    def seal_if_full(self) -> None:
        """Seal the open batch if it has reached its size. Called at the end of each turn."""
        if self._kept_open:
            return
        if self.current.bytes >= (self._batch_bytes_max if self.current.waiters else self._lazy_bytes_max):
            self.seal()

    def next(self, *, lazily: bool) -> SealedBatch | None:
        """Return the next batch to store, or None. A batch without a waiter is returned only if `lazily`."""
        if not (self.sealed or self._kept_open) and (self.current.waiters or (lazily and not self.current.empty)):
            self.seal()
        return self.sealed.popleft() if self.sealed else None


class OnDisk(Future[None]):
    """A future resolved when the open batch is on disk; with `removal`, when its settlements and purges are."""

    def __init__(self, batches: PendingBatches, *, removal: bool = False) -> None:
        super().__init__()
        self._batch = batches.wait_for_removal(self) if removal else batches.wait(self)

    def stored(self, batch: int) -> None:
        """Resolve if this batch, which is on disk, is the awaited one or a later one."""
        if not self.done and batch >= self._batch:
            self.resolve(None)
