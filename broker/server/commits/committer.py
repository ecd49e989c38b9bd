"""The only writer of the message store, as the event loop sees it.

`commit_policy` decides when a batch is written and by whom; most go to a thread of their own, the `CommitThread`, one
at a time; what gathers while one is written is the next. When a batch is on disk its confirms leave at once: nothing is
awaited in between. A commit that fails stops the broker without a confirm, because what is on disk is unknown. On a
full disk batches are handed over as they come: what they take away makes room.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import trio

from broker.entities.node.broker import Broker
from broker.server.commits.commit_policy import CommitLimits, CommitPolicy, Wait
from broker.server.commits.commit_thread import CatchUp, CommitThread, Item, Progress, Signal
from broker.server.commits.deferred_commit import DeferredCommit
from storage.batch import SealedBatch
from storage.messages.message_store import MessageStore
from storage.storage_errors import StoreFull

log = logging.getLogger("leveret.committer")


WAITS_MAX = 10_000
"""How many waits for the disk are remembered until they are asked for."""


class Writer(Protocol):
    """Takes the steps of commits: see `CommitThread`."""

    def start(self) -> None: ...
    def join(self) -> None: ...
    def hand_over(self, item: Item) -> None: ...
    def commit_at_once(self, batch: SealedBatch, *, loop_busy: bool) -> bool: ...


NewWriter = Callable[[MessageStore, Progress, dict[int, None], CommitPolicy], Writer]
"""Makes what takes the steps of commits."""


class Changes:
    """What happens again and again, and costs nothing while nobody waits for it: while it is not `awaited`."""

    def __init__(self) -> None:
        self.awaited: trio.Event | None = None

    def next(self) -> trio.Event:
        """Set when it happens the next time."""
        if self.awaited is None:
            self.awaited = trio.Event()
        return self.awaited

    def happened(self) -> None:
        """It has happened."""
        if self.awaited is not None:
            self.awaited.set()
            self.awaited = None


class Committer:
    """Commits batches in order, in a thread, and notifies the broker when each is on disk.

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
        writer: NewWriter = CommitThread,
    ) -> None:
        self._broker = broker
        self._store = store
        self._policy = CommitPolicy(limits)
        self._on_stored = on_stored
        self._on_full = on_full
        self._on_reclaimed = on_reclaimed
        self.waiting: dict[int, float] = {}
        """Since when something waits for batches, by number, which ascend: at the end of that turn."""
        self.waits: deque[float] = deque(maxlen=WAITS_MAX)
        """How long something has waited for each batch that is on disk: seconds, to be taken from the left end."""
        self._last = self._stored_up_to = 0
        self._error: Exception | None = None
        self._failed = trio.Event()
        self._changes = Changes()
        """A batch is on disk, or there is no room, or there is again."""
        self.deleted: dict[int, None] = {}
        self._writer = writer(store, self, self.deleted, self._policy)
        self.line = trio.Lock()
        """Where connections stand that have more to do than a turn allows: one of them goes on each time round, so that
        those with little to do wait for one long turn, not for as many as there are busy clients."""
        self.deferred = DeferredCommit(lambda: self.start_commit(gathered=True))

    def start(self, deleted: Iterable[int]) -> None:
        """Begin; records of these deleted queues may be there still."""
        self.deleted.update(dict.fromkeys(deleted))
        self._writer.start()

    def start_commit(self, *, lazily: bool = False, gathered: bool = False) -> None:
        """Hand the next batch to the thread, if there is one with a waiter, and the thread wants one.

        `lazily`: also one without a waiter. `gathered`: others that were ready have added to it what they had.
        """
        if self._error is not None:
            return
        batches, under_way = self._broker.batches, self.busy
        no_room, current = batches.disk_full, batches.current
        wait = self._policy.wait(len(current.waiters), len(batches.sealed), under_way=under_way, no_room=no_room)
        if wait is Wait.FOR_DISK:
            return
        if wait is Wait.FOR_OTHERS and not (lazily or gathered) and self._gathers(current.number):
            return
        batch = batches.next(lazily=lazily or no_room)
        if batch is not None:
            self._last = batch.number
            if not under_way and self._writer.commit_at_once(batch, loop_busy=self.line.locked()):
                self.stored(batch)
            else:
                self._writer.hand_over(batch)

    def _gathers(self, number: int) -> bool:
        """Put the open batch off until the event loop comes round again. False where it has waited for long enough."""
        return self.deferred.running and self._policy.gathers(self.deferred.request(number))

    def shrink(self) -> None:
        """Between two batches, give the room that free pages take back to the disk."""
        self._writer.hand_over(Signal.SHRINK)

    def restore_ballast(self) -> None:
        """Between two batches, take the ballast again, if there is room."""
        self._writer.hand_over(Signal.RESTORE_BALLAST)

    @property
    def busy(self) -> bool:
        """The thread has a batch that is not on disk."""
        return self._last > self._stored_up_to

    @property
    def behind(self) -> int:
        """How many full batches wait for the thread."""
        return len(self._broker.batches.sealed)

    async def room(self, *, confirmed: bool) -> None:
        """Return when a publisher, one with confirms or one without, may go on."""
        while self.crowded(confirmed=confirmed):
            await self._changes.next().wait()

    def crowded(self, *, confirmed: bool) -> bool:
        """The disk is so far behind that such a publisher has to wait."""
        batches = self._broker.batches
        if confirmed:
            return self._policy.confirmed_publisher_waits(len(batches.sealed), overfull=batches.overfull)
        behind, gathered = len(batches.sealed), batches.current.bytes
        return self._policy.unconfirmed_publisher_waits(behind, gathered, under_way=self.busy)

    async def lmdb_at_rest(self) -> None:
        """Return when a client with a lot to do may go on: LMDB does not catch up, or nobody waits for a commit.

        Catching up asks for the interpreter at each of its steps, and such a client gives it once in a turn. So what
        takes 5 ms alone took 30, and no other client got a confirm meanwhile. The next commit ends the wait.
        """
        while self._store.catching_up and self.waiting and self._error is None:
            await self._changes.next().wait()

    async def flush(self) -> None:
        """Return when everything gathered is on disk, or is not going to be: the disk is full, or a commit failed."""
        while self.unfinished and not self._broker.batches.disk_full:
            await self._commit_some()

    async def finish(self) -> None:
        """Return when everything gathered is on disk, or a commit has failed; then the thread ends."""
        while self.unfinished:
            await self._commit_some()
        self._writer.hand_over(Signal.END)
        await trio.to_thread.run_sync(self._writer.join)

    @property
    def unfinished(self) -> bool:
        """Something gathered is not on disk, and no commit has failed."""
        gathered = self.busy or self.behind > 0 or not self._broker.batches.current.empty
        return gathered and self._error is None

    async def _commit_some(self) -> None:
        changed = self._changes.next()
        self.start_commit(lazily=True)  # the batch may be on disk when this returns
        await changed.wait()

    async def catch_up(self) -> None:
        """Return when LMDB has all that is on disk by now. Raises StoreFull."""
        done, failed = trio.Event(), []

        def caught_up(error: StoreFull | None) -> None:
            failed.extend([error] if error else [])
            done.set()

        self._writer.hand_over(CatchUp(caught_up))
        await done.wait()
        for error in failed:
            raise error

    async def watch(self) -> None:
        """Wait for a commit to fail, and raise its error."""
        await self._failed.wait()
        assert self._error is not None
        raise self._error

    # Called by the thread

    def stored(self, batch: SealedBatch) -> None:
        """A batch, and every one before it, is on disk."""
        self._stored_up_to = batch.number
        self._end_waits(batch.number)
        self._broker.stored(batch)
        self._changes.happened()
        self._on_stored()

    def _end_waits(self, number: int) -> None:
        waiting = self.waiting
        while waiting and (first := next(iter(waiting))) <= number:
            self.waits.append(trio.current_time() - waiting.pop(first))

    def removed(self, batch: SealedBatch) -> None:
        """What batches up to this one take away is on disk, and not yet what they put."""
        for waiter in batch.removal_waiters:
            waiter.stored(batch.number)
        self._on_stored()

    def disk_full(self, full: bool) -> None:
        """There is no room for the batch in hand, or there is again."""
        self._broker.batches.disk_full = full
        self._broker.background_work.disk_moved()  # what makes room need not wait for the disk any more
        self._on_full(full)
        self.start_commit()
        self._changes.happened()

    def reclaimed(self, queue_ids: list[int]) -> None:
        """Nothing is left of deleted queues."""
        for queue_id in queue_ids:
            self.deleted.pop(queue_id, None)
        self._on_reclaimed(queue_ids)

    def failed(self, error: Exception) -> None:
        """A commit failed, and the thread has ended."""
        log.critical("cannot write messages to disk, stopping without another confirm: %s", error)
        self._error = error
        self._failed.set()
        self._changes.happened()
