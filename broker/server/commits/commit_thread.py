"""The thread that commits: one batch after the other is written, and in between what the store needs is done.

`commit_policy` decides where a batch is written and when LMDB catches up. `CommitSteps` are the steps, with the seconds
to wait between two of them; `CommitThread` is the thread that waits.

Only a full disk is survived: nothing of the batch was written, and it waits. Batches behind it are not kept waiting for
their turn: they are merged into it, and what they take away (acknowledged, purged, deleted) is committed on its own,
with the ballast's room if need be. That frees pages, and what was put is tried again.

A batch is on disk when it is in the journal. The event loop may commit to the journal while LMDB catches up.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from enum import Enum
from queue import Empty, SimpleQueue
from time import monotonic
from typing import NamedTuple, Protocol

import trio

from broker.server.commits import commit_policy
from broker.server.commits.commit_policy import CommitPolicy
from storage.batch import SealedBatch
from storage.batch_removals import additions, removals
from storage.journal.journal import Journal
from storage.journal.unapplied_writes import merged
from storage.space.store_space import StoreSpace
from storage.storage_errors import StoreFull

log = logging.getLogger("leveret.commit_thread")


class Signal(Enum):
    """What the thread is handed beside batches."""

    END = "end"
    SHRINK = "shrink"
    RESTORE_BALLAST = "restore ballast"
    CATCH_UP = "catch up"
    CATCH_UP_LATER = "catch up later"


class CatchUp(NamedTuple):
    """Has LMDB catch up behind what was handed over before, and calls `done`, in the event loop."""

    done: Callable[[StoreFull | None], None]


Item = SealedBatch | CatchUp | Signal


class Progress(Protocol):
    """What is called, in the event loop, as the thread gets on: the committer."""

    def stored(self, batch: SealedBatch) -> None:
        """A batch, and every one before it, is on disk."""

    def removed(self, batch: SealedBatch) -> None:
        """What batches up to this one take away is on disk, and not yet what they put."""

    def disk_full(self, full: bool) -> None:
        """There is no room for the batch in hand, or there is again."""

    def reclaimed(self, queue_ids: list[int]) -> None:
        """Nothing is left of deleted queues."""

    def failed(self, error: Exception) -> None:
        """A commit failed, and the thread has ended."""


class Tell(Protocol):
    """Has one of the methods of `Progress` called in the event loop."""

    def __call__(self, callback: Callable[..., None], argument: object) -> None: ...


class CommitStore(Protocol):
    """The message store as it is written to: see `MessageStore`."""

    @property
    def space(self) -> StoreSpace:
        """Its room on the disk."""

    @property
    def journal(self) -> Journal:
        """What is in front of LMDB."""

    def commit(self, batch: SealedBatch, *, to_journal: bool) -> bool:
        """Write a batch, all of it or nothing, and sync it. True where the journal has it, False where LMDB has."""

    def commit_to_journal(self, batch: SealedBatch) -> bool:
        """Commit a batch by the journal alone. False if that cannot be."""

    def catch_up(self) -> None:
        """Have LMDB take over what the journal has."""

    def take_away(self) -> None:
        """Have LMDB take away what the journal says is gone."""

    def reclaim(self) -> bool:
        """Clear away some of what is dead. True while more remains."""

    def make_freed_pages_free(self) -> None:
        """Write next to nothing: what the commit before has freed is free for others only after one more."""


class CommitSteps:
    """Commits what was handed over. `deleted` are queues of which records may be there still; batches add to it.

    `idle` says that nothing more was handed over: only then there is time for what is dead. `now` gives seconds.
    """

    def __init__(
        self,
        store: CommitStore,
        progress: Progress,
        deleted: dict[int, None],
        tell: Tell,
        idle: Callable[[], bool],
        policy: CommitPolicy,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self._policy = policy
        self._progress = progress
        self._deleted = deleted
        self._tell = tell
        self._idle = idle
        self._now = now

    def run(self) -> Generator[float | None, Item | None]:
        """Give how many seconds to wait for what is handed over next, None: for ever; take it, or None if none came.

        Nothing of a batch is held while waiting for the next one. Ends after END. Raises as `MessageStore.commit` does.
        """
        while (yield from self._do_next()):
            pass
        self._catch_up_with_all()

    def _do_next(self) -> Generator[float | None, Item | None, bool]:
        """Do what is due, or else what is handed over next. False at the end."""
        seconds = self._policy.seconds_to_catch_up(self._now(), ahead=self._store.journal.ahead)
        if seconds == 0:
            self._catch_up()
            return True
        self._reclaim()
        item = yield seconds
        return (yield from self._do(item))

    def _catch_up(self) -> StoreFull | None:
        """Have LMDB catch up. On a full disk the journal keeps what there is, and this is tried again."""
        self._policy.catching_up(self._now())
        try:
            self._store.catch_up()
        except StoreFull as error:
            log.debug("what is in the journal does not fit: %s", error)
            return error
        finally:
            self._policy.caught_up()
        return None

    def _catch_up_with_all(self) -> StoreFull | None:
        """The same until LMDB has all that is in the journal by now: the first time may be for what is older."""
        return self._catch_up() or (self._catch_up() if self._store.journal.ahead else None)

    def _do(self, item: Item | None) -> Generator[float | None, Item | None, bool]:
        """Commit what was handed over, or act on it. False at the end."""
        if isinstance(item, SealedBatch):
            self._tell(self._progress.stored, (yield from self._commit(item)))
        elif isinstance(item, CatchUp):
            self._tell(item.done, self._catch_up_with_all())
        elif item is Signal.CATCH_UP:
            self._catch_up()
        elif item is Signal.SHRINK:
            self._shrink()
        elif item is Signal.RESTORE_BALLAST:
            self._store.space.restore_ballast()
        return item is not Signal.END

    def _reclaim(self) -> None:
        while self._idle() and self._reclaim_some():
            pass

    def _reclaim_some(self) -> bool:
        deleted = list(self._deleted)
        try:
            more = self._store.reclaim()
        except StoreFull:
            return False
        if not more and deleted:
            self._tell(self._progress.reclaimed, deleted)
        return more

    def _shrink(self) -> None:
        """Give the room of free pages back to the disk, as long as no batch waits; what is left is asked for again."""
        with suppress(StoreFull):
            self._store.make_freed_pages_free()
        while self._idle() and self._store.space.give_back():
            pass

    def _commit(self, batch: SealedBatch) -> Generator[float | None, Item | None, SealedBatch]:
        """Write a batch, and on a full disk as many behind it as it takes until there is room; all of them as one."""
        try:
            self._write(batch)
            return batch
        except StoreFull as error:  # which holds all that was made for writing: it goes before the long wait
            log.error("%s; publishers are blocked", error)
        self._tell(self._progress.disk_full, True)
        batch = yield from self._commit_without_room(batch)
        self._tell(self._progress.disk_full, False)
        return batch

    def _commit_without_room(self, batch: SealedBatch) -> Generator[float | None, Item | None, SealedBatch]:
        left = batch
        while True:
            left = self._take_away(left)
            self._catch_up_with_reserve()
            self._reclaim()
            self._shrink()
            try:
                if left.put_bytes <= self._store.space.room_bytes():
                    self._write(left)
                    return batch
            except StoreFull as error:
                log.debug("still no room: %s", error)
            later = yield commit_policy.RETRY_SECONDS
            if isinstance(later, SealedBatch):
                batch, left = merged(batch, later), merged(left, later)

    def _take_away(self, batch: SealedBatch) -> SealedBatch:
        """Have what a batch takes away on disk, if that is possible. What is left to do of it."""
        taken = removals(batch)
        if taken.empty:
            return batch
        try:
            self._with_room_of(self._store.space.release_ballast, lambda: self._write(taken))
        except StoreFull:
            return batch
        self._tell(self._progress.removed, taken)
        return additions(batch)

    def _catch_up_with_reserve(self) -> None:
        """Have LMDB catch up, or at least take away what is gone: only what LMDB does makes room."""
        try:
            self._with_room_of(self._store.space.release_reserve, self._store.catch_up)
        except StoreFull:
            with suppress(StoreFull):
                self._with_room_of(self._store.space.release_ballast, self._store.take_away)

    def _with_room_of(self, release: Callable[[], bool], write: Callable[[], None]) -> None:
        """Write, if need be into the room that something is released for."""
        try:
            write()
        except StoreFull:
            if not release():
                raise
            write()

    def _write(self, batch: SealedBatch) -> None:
        journal = self._store.journal
        if self._store.commit(batch, to_journal=self._policy.journal_takes(batch.bytes, journal.figures())):
            self._policy.wrote(journal.last_write)
        self._deleted.update(dict.fromkeys(batch.deleted_queues))  # before the next look at what is dead


class CommitThread:
    """The thread of a committer's steps; the event loop may take a step in its place."""

    def __init__(
        self,
        store: CommitStore,
        progress: Progress,
        deleted: dict[int, None],
        policy: CommitPolicy,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self._policy = policy
        self._now = now
        self._progress = progress
        self._handed_over: SimpleQueue[Item] = SimpleQueue()
        self._steps = CommitSteps(store, progress, deleted, self._tell, self._handed_over.empty, policy, now).run()
        self._token = trio.lowlevel.current_trio_token()
        self._committing = threading.Thread(target=self._run, name="leveret-committer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._committing.start()

    def join(self) -> None:
        """Wait for the thread to end: END was handed over."""
        self._committing.join()

    def hand_over(self, item: Item) -> None:
        """Have a batch committed, or something done, behind what was handed over before."""
        self._handed_over.put(item)

    def commit_at_once(self, batch: SealedBatch, *, loop_busy: bool) -> bool:
        """Commit a batch here and now, if the policy wants that and the journal has room. False: hand it over.

        Only while no batch is under way.
        """
        began, journal = self._now(), self._store.journal
        if not self._policy.loop_writes(batch, journal.figures(), began, loop_busy=loop_busy):
            return False
        if not self._store.commit_to_journal(batch):
            return False
        self._policy.loop_wrote(journal.last_write, began, self._now())
        self._have_lmdb_follow()
        return True

    def _have_lmdb_follow(self) -> None:
        """Have LMDB catch up, now if the journal has much for it: batches that are committed after this are left."""
        journal = self._store.journal
        figures = journal.figures()
        if self._policy.parcel_due(figures):
            journal.make_parcel()
            self.hand_over(Signal.CATCH_UP)
        elif figures.first:
            self.hand_over(Signal.CATCH_UP_LATER)

    # In the thread

    def _run(self) -> None:
        try:
            with suppress(StopIteration):
                seconds = next(self._steps)
                while True:
                    seconds = self._steps.send(self._next(seconds))
        except Exception as error:
            self._tell(self._progress.failed, error)

    def _next(self, seconds: float | None) -> Item | None:
        """What is handed over next, if it comes within so many seconds."""
        try:
            return self._handed_over.get(timeout=seconds)
        except Empty:
            return None

    def _tell(self, callback: Callable[..., None], argument: object) -> None:
        try:
            self._token.run_sync_soon(callback, argument)
        except trio.RunFinishedError:
            log.debug("the broker ended before the committer")
