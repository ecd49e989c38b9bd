"""The open batch, and the sealed ones that wait for the disk."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from broker.entities.scheduling.future import Future
from storage.batch import SealedBatch, Waiter, WriteBatch

if TYPE_CHECKING:
    from broker.entities.queues.event_recording import Recorder


class BatchQueue:
    """Everything the queues want on disk, cut into batches between turns.

    Batches are numbered from 1 and stored in that order. A turn is atomic: its writes are in one batch. One that
    nobody waits for is cut smaller, because whoever comes next has to wait until it is on disk.
    """

    def __init__(self, batch_bytes_max: int, lazy_bytes_max: int, recorder: Recorder | None = None) -> None:
        self._batch_bytes_max = batch_bytes_max
        self._lazy_bytes_max = lazy_bytes_max
        self._recorder = recorder
        self.current = WriteBatch(1)
        self.sealed: deque[SealedBatch] = deque()

    def wait(self, waiter: Waiter) -> int:
        """Tell `waiter` when what has been gathered so far is on disk; the number of that batch."""
        self.current.waiters[waiter] = None
        return self.current.number

    def seal(self) -> None:
        """Close the open batch, to be stored after those closed before it."""
        last_event = 0 if self._recorder is None else self._recorder.last_event
        self.sealed.append(self.current.seal(last_event))
        self.current = WriteBatch(self.current.number + 1)

    def seal_if_full(self) -> None:
        """At the end of a turn: keep batches within their size."""
        if self.current.bytes >= (self._batch_bytes_max if self.current.waiters else self._lazy_bytes_max):
            self.seal()

    def next(self, *, lazily: bool) -> SealedBatch | None:
        """The next batch to store. One that nobody waits for is given only `lazily`."""
        if not self.sealed and (self.current.waiters or (lazily and not self.current.empty)):
            self.seal()
        return self.sealed.popleft() if self.sealed else None


class OnDisk(Future[None]):
    """Resolves when everything gathered so far is on disk."""

    def __init__(self, batches: BatchQueue) -> None:
        super().__init__()
        self._batch = batches.wait(self)

    def stored(self, batch: int) -> None:
        """A batch has reached the disk."""
        if not self.done and batch >= self._batch:
            self.resolve(None)
