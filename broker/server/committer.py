"""The only writer of the message store.

Batches go to a thread of their own, one at a time; what gathers while one is written is the next. So batches
grow with the load and no clock decides anything. When a batch is on disk its confirms leave at once: nothing
is awaited in between. A commit that fails stops the broker without a confirm, because nobody knows what is on
disk. Only a full disk is survived: the batch, of which nothing was written, waits and is tried again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import NamedTuple

import trio

from broker.entities.vhosts.broker import Broker
from storage.batch import SealedBatch
from storage.messages.message_store import MessageStore
from storage.storage_errors import StoreFull

log = logging.getLogger("leveret.committer")

RETRY_SECONDS = 1.0


class CommitLimits(NamedTuple):
    """How much may wait for the disk before publishers wait too.

    Who waits for confirms bounds by that what is under way, so several full batches may wait. Who publishes without
    would always fill them, and everybody's confirms would come behind; so no more than `lazy_bytes_max` gathers of that
    while a batch is written.
    """

    batches_max: int
    lazy_bytes_max: int


class Committer:
    """Commits batches in order, in a thread, and tells the broker when each is on disk.

    `on_stored` is called after that, `on_full` when there is no room for the batch in hand, and when there is again,
    `on_reclaimed` with deleted queues when nothing is left of them. All are called in the event loop.
    """

    def __init__(
        self,
        broker: Broker,
        store: MessageStore,
        limits: CommitLimits,
        *,
        on_stored: Callable[[], None],
        on_full: Callable[[bool], None],
        on_reclaimed: Callable[[list[int]], None],
    ) -> None:
        self._broker = broker
        self._store = store
        self._limits = limits
        self._on_stored = on_stored
        self._on_full = on_full
        self._on_reclaimed = on_reclaimed
        self._batches: SimpleQueue[SealedBatch | None] = SimpleQueue()
        self._busy = False
        self._token = trio.lowlevel.current_trio_token()
        self._thread = threading.Thread(target=self._run, name="leveret-committer", daemon=True)
        self._error: Exception | None = None
        self._changed = trio.Event()
        self.deleted: dict[int, None] = {}

    def start(self, deleted: Iterable[int]) -> None:
        """Begin; records of these deleted queues may be there still."""
        self.deleted.update(dict.fromkeys(deleted))
        self._thread.start()

    def start_commit(self, *, lazily: bool = False) -> None:
        """Hand the next batch to the thread, if it is idle and there is one that somebody waits for."""
        if self._busy or self._error is not None:
            return
        batch = self._broker.batches.next(lazily=lazily)
        if batch is not None:
            self._busy = True
            self._batches.put(batch)

    @property
    def behind(self) -> int:
        """How many full batches wait for the thread."""
        return len(self._broker.batches.sealed)

    async def room(self, *, confirmed: bool) -> None:
        """Return when a publisher, one with confirms or one without, may go on."""
        while self._crowded(confirmed):
            await self._changed.wait()

    def _crowded(self, confirmed: bool) -> bool:
        if confirmed:
            return self.behind > self._limits.batches_max
        return self._busy and (self.behind > 0 or self._broker.batches.current.bytes >= self._limits.lazy_bytes_max)

    async def finish(self) -> None:
        """Return when everything gathered is on disk; then the thread ends."""
        while self._busy or self.behind or not self._broker.batches.current.empty:
            self.start_commit(lazily=True)
            await self._changed.wait()
        self._batches.put(None)
        await trio.to_thread.run_sync(self._thread.join)

    async def watch(self) -> None:
        """Wait for a commit to fail, and raise its error."""
        while self._error is None:
            await self._changed.wait()
        raise self._error

    # On the broker's side, when the thread has something to tell

    def _stored(self, batch: SealedBatch) -> None:
        self._busy = False
        self._broker.stored(batch)
        self._notify()
        self._on_stored()

    def _failed(self, error: Exception) -> None:
        log.critical("cannot write messages to disk, stopping without another confirm: %s", error)
        self._error = error
        self._notify()

    def _reclaimed(self, queue_ids: list[int]) -> None:
        for queue_id in queue_ids:
            self.deleted.pop(queue_id, None)
        self._on_reclaimed(queue_ids)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    # In the thread

    def _run(self) -> None:
        try:
            while (batch := self._next()) is not None:
                self._commit(batch)
                self.deleted.update(dict.fromkeys(batch.deleted_queues))  # before the next look at what is dead
                self._tell(self._stored, batch)
        except Exception as error:
            self._tell(self._failed, error)

    def _next(self) -> SealedBatch | None:
        """The next batch; while none is there, what is dead is cleared away in small steps."""
        while self._batches.empty() and self._reclaim():
            pass
        return self._batches.get()

    def _reclaim(self) -> bool:
        deleted = list(self.deleted)
        try:
            more = self._store.reclaim()
        except StoreFull:
            return False
        if not more and deleted:
            self._tell(self._reclaimed, deleted)
        return more

    def _commit(self, batch: SealedBatch) -> None:
        full = False
        while True:
            try:
                self._store.commit(batch)
                break
            except StoreFull as error:
                if not full:
                    full = True
                    log.error("%s; publishers are blocked", error)
                    self._tell(self._on_full, True)
                if not self._store.release_ballast():
                    time.sleep(RETRY_SECONDS)
        if full:
            self._tell(self._on_full, False)

    def _tell(self, callback: Callable[..., None], argument: object) -> None:
        try:
            self._token.run_sync_soon(callback, argument)
        except trio.RunFinishedError:
            log.debug("the broker ended before the committer")
