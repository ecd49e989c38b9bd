"""The open batch, and the sealed ones that wait for the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from broker.entities.scheduling.future import Future
from storage.batch import SealedBatch, Waiter, WriteBatch

if TYPE_CHECKING:
    from broker.entities.queues.events.event_recording import Recorder


SEALED_MAX = 2
"""How many full batches may wait for the disk before even little work waits that can."""


WORK_SHARE = 4
"""Background work goes on until a batch has this part of what publishers without confirms may put into it: others'
confirms wait for the batch in flight and for the open one."""


class PendingBatches:
    """Everything the queues want on disk, cut into batches between turns.

    Batches are numbered from 1 and stored in that order. A turn is atomic: its writes are in one batch. One
    without a waiter is cut smaller, because the next with one has to wait until it is on disk.
    What is too much for one turn and has to be atomic nevertheless holds the open batch open meanwhile.
    """

    def __init__(self, batch_bytes_max: int, lazy_bytes_max: int, recorder: Recorder | None = None) -> None:
        self._batch_bytes_max = batch_bytes_max
        self._lazy_bytes_max = lazy_bytes_max
        self._recorder = recorder
        self.disk_full = False
        self._sealed_bytes = 0
        self._kept_open = 0
        self.urgent = False
        """What comes back to queues is dealt with at once, and goes only with what is put into the open batch."""
        self.current = WriteBatch(1)
        self.sealed: deque[SealedBatch] = deque()

    @property
    def crowded(self) -> bool:
        """The disk is behind, or busy for long enough with what is in the open batch: what can wait has to wait."""
        return self.disk_full or bool(self.sealed) or self.current.bytes >= self._lazy_bytes_max // WORK_SHARE

    @property
    def full(self) -> bool:
        """The disk is far behind: what can wait for it has to wait, however little it is."""
        return self.disk_full or len(self.sealed) > SEALED_MAX or self.current.bytes >= self._batch_bytes_max

    @property
    def overfull(self) -> bool:
        """The open batch is held open although it is full: what can wait must not be added."""
        return self._kept_open > 0 and self.current.bytes >= self._batch_bytes_max

    def wait(self, waiter: Waiter) -> int:
        """Notify `waiter` when what has been gathered so far is on disk; the number of that batch."""
        self.current.waiters[waiter] = True
        return self.current.number

    def wait_for_removal(self, waiter: Waiter) -> int:
        """The same for a waiter for what was taken away: that reaches a full disk first."""
        self.current.waiters.setdefault(waiter, False)
        return self.current.number

    def keep_open(self) -> None:
        """What is gathered from now on belongs in one batch, over several turns, until `release_open`."""
        self._kept_open += 1

    def release_open(self) -> None:
        """All that belongs together, for which the batch was held open, is gathered."""
        self._kept_open -= 1

    @contextmanager
    def nothing_waits(self) -> Iterator[None]:
        """What is done now belongs in the open batch, however far behind the disk is."""
        self.urgent = True
        try:
            yield
        finally:
            self.urgent = False

    def seal(self) -> None:
        """Close the open batch, to be stored after those closed before it. What is in it is in the event log before."""
        self._sealed_bytes += self.current.bytes
        last_event = 0
        if self._recorder is not None:
            self._recorder.flush()
            last_event = self._recorder.last_event
        self.sealed.append(self.current.seal(last_event))
        self.current = WriteBatch(self.current.number + 1)

    @property
    def unstored_bytes(self) -> int:
        """What was put and is not on disk, roughly."""
        return self._sealed_bytes + self.current.bytes

    def stored(self, batch: SealedBatch) -> None:
        """A batch, and all before it, is on disk."""
        self._sealed_bytes -= batch.bytes

    def seal_if_full(self) -> None:
        """At the end of a turn: keep batches within their size."""
        if self._kept_open:
            return
        if self.current.bytes >= (self._batch_bytes_max if self.current.waiters else self._lazy_bytes_max):
            self.seal()

    def next(self, *, lazily: bool) -> SealedBatch | None:
        """The next batch to store. One without a waiter is given only `lazily`."""
        if not (self.sealed or self._kept_open) and (self.current.waiters or (lazily and not self.current.empty)):
            self.seal()
        return self.sealed.popleft() if self.sealed else None


class OnDisk(Future[None]):
    """Resolves when everything gathered so far is on disk; with `removal`, when all is that was taken away."""

    def __init__(self, batches: PendingBatches, *, removal: bool = False) -> None:
        super().__init__()
        self._batch = batches.wait_for_removal(self) if removal else batches.wait(self)

    def stored(self, batch: int) -> None:
        """A batch has reached the disk."""
        if not self.done and batch >= self._batch:
            self.resolve(None)
