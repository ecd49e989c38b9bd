"""The event loop's side of commits, and the only writer of the message store.

`commit_policy` decides when a batch is written and by whom; most are handed to the `CommitThread`, one
at a time; what gathers while one is written is the next. When a batch is on disk its confirms are sent in the same
turn. A failed commit stops the broker without a confirm, because the state of the disk is unknown. On a
full disk batches are handed over as they come: their removals free space.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

import trio

from broker.entities.node.broker import Broker
from broker.server.commits.commit_policy import CommitLimits, CommitPolicy, Wait
from broker.server.commits.commit_thread import CatchUp, CommitSignal, CommitThread, Item, Progress
from broker.server.commits.deferred_commit import DeferredCommit
from broker.server.commits.held_confirms import HeldConfirms
from storage.batch import SealedBatch
from storage.messages.message_store import MessageStore
from storage.storage_errors import StoreFull

log = logging.getLogger("leveret.committer")


WAITS_MAX = 10_000
"""Times kept until the metrics take them."""


class Writer(Protocol):
    """Takes the steps of commits: see `CommitThread`."""

    def start(self) -> None: ...
    def join(self) -> None: ...
    def hand_over(self, item: Item) -> None: ...
    def commit_at_once(self, batch: SealedBatch, *, loop_busy: bool) -> bool: ...


NewWriter = Callable[[MessageStore, Progress, dict[int, None], CommitPolicy], Writer]
"""Makes the writer of a committer."""


class RecurringEvent:
    """An event that happens again and again. It costs nothing while no task waits for it (`awaited` is None)."""

    def __init__(self) -> None:
        self.awaited: trio.Event | None = None

    def next(self) -> trio.Event:
        """Return a trio event that is set when it happens next."""
        if self.awaited is None:
            self.awaited = trio.Event()
        return self.awaited

    def happened(self) -> None:
        """Wake the tasks that wait for it."""
        if self.awaited is not None:
            self.awaited.set()
            self.awaited = None


class Committer:
    """Commits batches in order, in a thread, and notifies the broker when each is on disk.

    `on_stored` is called after that; `on_full` when the disk is too full for a batch, and when it is not any more;
    `on_reclaimed` with deleted queues when none of their records is left. All are called in the event loop.
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
        self.broker = broker
        self._store = store
        self._policy = CommitPolicy(limits)
        self._on_stored = on_stored
        self._on_full = on_full
        self._on_reclaimed = on_reclaimed
        self.waiting: dict[int, float] = {}
        """Time at which a batch got its first waiter (at the end of that turn), by batch number, ascending."""
        self.waits: deque[float] = deque(maxlen=WAITS_MAX)
        """Seconds from a batch's first waiter to its commit, for the metrics to take from the left end."""
        self._last = self._stored_up_to = 0
        self._error: Exception | None = None
        self._failed = trio.Event()
        self._progressed = RecurringEvent()
        """A batch is on disk, or the disk has become full, or is not any more."""
        self.deleted: dict[int, None] = {}
        self.held_confirms: HeldConfirms | None = None
        """The confirms that wait for a second place as well; None: none do."""
        self._writer = writer(store, self, self.deleted, self._policy)
        self.round_robin = trio.Lock()
        """Lock of connections that have more to do than one turn allows. One of them handles input in each round of the
        event loop, so that other clients wait for one long turn, not for one of each busy client."""
        self.deferred = DeferredCommit(lambda: self.start_commit(gathered=True))

    def start(self, deleted: Iterable[int]) -> None:
        """Start the writer. These deleted queues may still have records in the store."""
        self.deleted.update(dict.fromkeys(deleted))
        self._writer.start()

    def start_commit(self, *, lazily: bool = False, gathered: bool = False) -> None:
        """Commit the next batch, or hand it to the thread, if it has a waiter and the policy says now.

        `lazily`: also one without a waiter. `gathered`: clients that were ready have added to it already.
        """
        if self._error is not None:
            return
        batches, under_way = self.broker.batches, self.busy
        no_room, current = batches.disk_full, batches.current
        wait = self._policy.wait(len(current.waiters), len(batches.sealed), under_way=under_way, no_room=no_room)
        if wait is Wait.FOR_DISK:
            return
        if wait is Wait.FOR_OTHERS and not (lazily or gathered) and self._gathers(current.number):
            return
        batch = batches.next(lazily=lazily or no_room)
        if batch is not None:
            assert batch.number > self._last, f"batch {batch.number} is committed after batch {self._last}"
            self._last = batch.number
            if not under_way and self._writer.commit_at_once(batch, loop_busy=self.round_robin.locked()):
                self.stored(batch)
            else:
                self._writer.hand_over(batch)

    def _gathers(self, number: int) -> bool:
        """Put the open batch off until the event loop comes round again. False if it has waited long enough."""
        return self.deferred.running and self._policy.gathers(self.deferred.request(number))

    def shrink(self) -> None:
        """Give free pages of the store's file back to the disk, between two batches."""
        self._writer.hand_over(CommitSignal.SHRINK)

    def restore_ballast(self) -> None:
        """Write the ballast again, between two batches, if there is space."""
        self._writer.hand_over(CommitSignal.RESTORE_BALLAST)

    @property
    def busy(self) -> bool:
        """True if the thread has a batch that is not on disk."""
        return self._last > self._stored_up_to

    @property
    def behind(self) -> int:
        """Number of full batches that wait for the thread."""
        return len(self.broker.batches.sealed)

    async def backpressure(self, *, confirmed: bool) -> None:
        """Return when a publisher, `confirmed` or not, may be read: the disk is not too far behind."""
        while self.crowded(confirmed=confirmed):
            await self._progressed.next().wait()

    def crowded(self, *, confirmed: bool) -> bool:
        """Return True if the disk is so far behind that a publisher, `confirmed` or not, is not read."""
        batches, held = self.broker.batches, self.held_confirms
        if confirmed:
            if held is not None and held.crowded:
                return True
            return self._policy.confirmed_publisher_waits(len(batches.sealed), overfull=batches.overfull)
        behind, gathered = len(batches.sealed), batches.current.bytes
        return self._policy.unconfirmed_publisher_waits(behind, gathered, under_way=self.busy)

    async def lmdb_at_rest(self) -> None:
        """Return when a busy client may go on: LMDB is not catching up, or no commit is awaited.

        Catching up needs the interpreter (GIL) at each of its steps, and a busy client gives it up once in a turn. So
        5 ms of work took 30, and no other client got a confirm meanwhile. The next commit ends the wait.
        """
        while self._store.catching_up and self.waiting and self._error is None:
            await self._progressed.next().wait()

    async def flush(self) -> None:
        """Return when all changes are on disk, or cannot be: the disk is full, or a commit failed."""
        while self.unfinished and not self.broker.batches.disk_full:
            await self._commit_some()

    async def finish(self) -> None:
        """Return when all changes are on disk, or a commit has failed; then end the thread."""
        while self.unfinished:
            await self._commit_some()
        self._writer.hand_over(CommitSignal.END)
        await trio.to_thread.run_sync(self._writer.join)

    @property
    def unfinished(self) -> bool:
        """True if changes are not on disk and no commit has failed."""
        gathered = self.busy or self.behind > 0 or not self.broker.batches.current.empty
        return gathered and self._error is None

    async def _commit_some(self) -> None:
        changed = self._progressed.next()
        self.start_commit(lazily=True)  # the batch may be on disk when this returns
        await changed.wait()

    async def catch_up(self) -> None:
        """Return when LMDB has all batches that are on disk by now. Raises StoreFull."""
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
        """Send the confirms of a batch, and of every one before it: they are on disk. Those that wait for a second
        place are held back."""
        assert batch.number <= self._last, f"batch {batch.number} is stored, and {self._last} was the last to commit"
        self._stored_up_to = batch.number
        self._end_waits(batch.number)
        held = self.held_confirms
        self.broker.stored(batch if held is None else held.hold(batch))
        self._progressed.happened()
        self._on_stored()

    def shipped(self) -> None:
        """Send the confirms of batches that are at the second place by now."""
        if self.held_confirms is not None and self.held_confirms.release():
            self._progressed.happened()
            self._on_stored()

    def _end_waits(self, number: int) -> None:
        waiting = self.waiting
        while waiting and (first := next(iter(waiting))) <= number:
            self.waits.append(trio.current_time() - waiting.pop(first))

    def removed(self, batch: SealedBatch) -> None:
        """Answer the clients that wait for removals in batches up to this one: those are on disk, additions not yet."""
        for waiter in batch.removal_waiters:
            waiter.stored(batch.number)
        self._on_stored()

    def disk_full(self, full: bool) -> None:
        """Note that the disk is too full for the batch in hand, or not any more."""
        self.broker.batches.disk_full = full
        self.broker.background_work.disk_moved()  # work that frees space does not wait for a full disk
        self._on_full(full)
        self.start_commit()
        self._progressed.happened()

    def reclaimed(self, queue_ids: list[int]) -> None:
        """Note that no records of these deleted queues are left."""
        for queue_id in queue_ids:
            self.deleted.pop(queue_id, None)
        self._on_reclaimed(queue_ids)

    def failed(self, error: Exception) -> None:
        """Stop the broker, by way of `watch`: a commit failed, and the thread has ended."""
        log.critical("cannot write messages to disk, stopping without another confirm: %s", error)
        self._error = error
        self._failed.set()
        self._progressed.happened()
