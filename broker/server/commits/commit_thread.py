"""The commit thread: it writes batches one after the other and, when none waits, does the store's housekeeping.

`commit_policy` decides where a batch is written and when LMDB catches up. `CommitSteps` are the steps, with the seconds
to wait between two of them; `CommitThread` is the thread that waits.

The only failure that is survived is a full disk: nothing of the batch was written, and it waits. Batches behind it are
merged into it, and their removals (acknowledged, purged, deleted) are committed alone,
if necessary with the ballast's space. That frees pages, and the additions are tried again.

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


class CommitSignal(Enum):
    """Orders for the thread, handed over between batches."""

    END = "end"
    SHRINK = "shrink"
    RESTORE_BALLAST = "restore ballast"
    CATCH_UP = "catch up"
    CATCH_UP_LATER = "catch up later"


class CatchUp(NamedTuple):
    """An order to have LMDB catch up with all batches handed over before; then `done` is called in the event loop."""

    done: Callable[[StoreFull | None], None]


Item = SealedBatch | CatchUp | CommitSignal


class Progress(Protocol):
    """The committer as the thread reports to it, in the event loop."""

    def stored(self, batch: SealedBatch) -> None:
        """Note that a batch, and every one before it, is on disk."""

    def removed(self, batch: SealedBatch) -> None:
        """Note that the removals of batches up to this one are on disk, but not their additions."""

    def disk_full(self, full: bool) -> None:
        """Note that the disk is too full for the batch in hand, or not any more."""

    def reclaimed(self, queue_ids: list[int]) -> None:
        """Note that no records of these deleted queues are left."""

    def failed(self, error: Exception) -> None:
        """Note that a commit failed, and the thread has ended."""


class Tell(Protocol):
    """Calls a method of `Progress` in the event loop."""

    def __call__(self, callback: Callable[..., None], argument: object) -> None: ...


class CommitStore(Protocol):
    """The message store as the thread uses it: see `MessageStore`."""

    @property
    def space(self) -> StoreSpace:
        """Its disk space."""

    @property
    def journal(self) -> Journal:
        """The journal in front of LMDB."""

    def commit(self, batch: SealedBatch, *, to_journal: bool) -> bool:
        """Write and sync a batch, all of it or nothing. True if the journal has it, False if LMDB has."""

    def commit_to_journal(self, batch: SealedBatch) -> bool:
        """Commit a batch to the journal. False if that is not possible."""

    def catch_up(self) -> None:
        """Write the batches of the journal to LMDB."""

    def take_away(self) -> None:
        """Write the removals of the journal to LMDB."""

    def reclaim(self) -> bool:
        """Delete some dead records. True while more remain."""

    def make_freed_pages_free(self) -> None:
        """Commit a no-op: LMDB reuses freed pages only one transaction later."""


class CommitSteps:
    """Commits the batches that are handed over. `deleted`: deleted queues that may have records; batches add to it.

    `idle` returns True if nothing more was handed over: only then dead records are deleted. `now` returns seconds.
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
        """Yield the seconds to wait for the next item (None: for ever); the caller sends it, or None if none came.

        Ends after END. Raises as `MessageStore.commit` does. While it waits it refers to no batch, which is large.
        """
        while (yield from self._do_next()):
            pass
        self._catch_up_with_all()

    def _do_next(self) -> Generator[float | None, Item | None, bool]:
        """Have LMDB catch up if that is due, else do what is handed over next. False at the end."""
        seconds = self._policy.seconds_to_catch_up(self._now(), ahead=self._store.journal.ahead)
        if seconds == 0:
            self._catch_up()
            return True
        self._reclaim()
        item = yield seconds
        return (yield from self._do(item))

    def _catch_up(self) -> StoreFull | None:
        """Have LMDB catch up; StoreFull if it does not fit: then the journal keeps it, and this is tried again."""
        self._policy.catching_up(self._now())
        try:
            self._store.catch_up()
        except StoreFull as error:
            log.debug("LMDB cannot catch up with the journal: %s", error)
            return error
        finally:
            self._policy.caught_up()
        return None

    def _catch_up_with_all(self) -> StoreFull | None:
        """Have LMDB catch up until it has all of the journal: the first time may write an older parcel."""
        return self._catch_up() or (self._catch_up() if self._store.journal.ahead else None)

    def _do(self, item: Item | None) -> Generator[float | None, Item | None, bool]:
        """Commit a batch, or carry out an order. False at the end."""
        if isinstance(item, SealedBatch):
            self._tell(self._progress.stored, (yield from self._commit(item)))
        elif isinstance(item, CatchUp):
            self._tell(item.done, self._catch_up_with_all())
        elif item is CommitSignal.CATCH_UP:
            self._catch_up()
        elif item is CommitSignal.SHRINK:
            self._shrink()
        elif item is CommitSignal.RESTORE_BALLAST:
            self._store.space.restore_ballast()
        return item is not CommitSignal.END

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
        """Give free pages back to the disk until a batch waits; the resource watch asks again for the rest."""
        with suppress(StoreFull):
            self._store.make_freed_pages_free()
        while self._idle() and self._store.space.give_back():
            pass

    def _commit(self, batch: SealedBatch) -> Generator[float | None, Item | None, SealedBatch]:
        """Write a batch and return it; after a full disk, merged with all that were handed over until it did fit."""
        try:
            self._write(batch)
            return batch
        except StoreFull as error:  # left before the long wait, because its traceback refers to all that was encoded
            log.error("%s; publishers are blocked", error)
        self._tell(self._progress.disk_full, True)
        batch = yield from self._commit_on_full_disk(batch)
        self._tell(self._progress.disk_full, False)
        return batch

    def _commit_on_full_disk(self, batch: SealedBatch) -> Generator[float | None, Item | None, SealedBatch]:
        """Free space, and try the batch again, until it fits. `left` is the part of it that is not written."""
        left = batch
        while True:
            # In this order, because only removals that LMDB has make pages free, which are then given back.
            left = self._take_away(left)
            self._catch_up_with_reserve()
            self._reclaim()
            self._shrink()
            try:
                if left.put_bytes <= self._store.space.room_bytes():
                    self._write(left)
                    return batch
            except StoreFull as error:
                log.debug("the disk is still full: %s", error)
            later = yield commit_policy.RETRY_SECONDS
            if isinstance(later, SealedBatch):
                assert later.number > batch.number, f"batch {later.number} was handed over after batch {batch.number}"
                batch, left = merged(batch, later), merged(left, later)

    def _take_away(self, batch: SealedBatch) -> SealedBatch:
        """Commit the removals of a batch alone, if they fit; return what is left to write."""
        taken = removals(batch)
        if taken.empty:
            return batch
        try:
            self._using_space_of(self._store.space.release_ballast, lambda: self._write(taken))
        except StoreFull:
            return batch
        self._tell(self._progress.removed, taken)
        return additions(batch)

    def _catch_up_with_reserve(self) -> None:
        """Have LMDB catch up, or at least write the journal's removals: space is freed in LMDB only."""
        try:
            self._using_space_of(self._store.space.release_reserve, self._store.catch_up)
        except StoreFull:
            with suppress(StoreFull):
                self._using_space_of(self._store.space.release_ballast, self._store.take_away)

    def _using_space_of(self, release: Callable[[], bool], write: Callable[[], None]) -> None:
        """Call `write`; if the disk is full, `release` space and call it again. Raises StoreFull."""
        try:
            write()
        except StoreFull:
            if not release():
                raise
            write()

    def _write(self, batch: SealedBatch) -> None:
        journal = self._store.journal
        if self._store.commit(batch, to_journal=self._policy.journal_takes(batch.bytes, journal.figures())):
            self._policy.wrote(journal.last_write, self._now())
        self._deleted.update(dict.fromkeys(batch.deleted_queues))  # before the next `reclaim`, which reports them


class CommitThread:
    """The thread that takes a committer's steps. The event loop may commit in its place while it has nothing to do."""

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
        """Start the thread."""
        self._committing.start()

    def join(self) -> None:
        """Wait for the thread to end, after END was handed over."""
        self._committing.join()

    def hand_over(self, item: Item) -> None:
        """Have a batch committed, or an order carried out, after all that was handed over before."""
        self._handed_over.put(item)

    def commit_at_once(self, batch: SealedBatch, *, loop_busy: bool) -> bool:
        """Commit a batch in the event loop, if the policy says so and it fits into the journal. False: hand it over.

        To be called only while no batch is under way.
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
        """Have LMDB catch up, now or later as the policy says; with what is in the journal at this moment."""
        journal = self._store.journal
        figures = journal.figures()
        if self._policy.parcel_due(figures):
            journal.make_parcel()
            self.hand_over(CommitSignal.CATCH_UP)
        elif figures.first:
            self.hand_over(CommitSignal.CATCH_UP_LATER)

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
        """Return the next item, or None if none is handed over within `seconds`."""
        try:
            return self._handed_over.get(timeout=seconds)
        except Empty:
            return None

    def _tell(self, callback: Callable[..., None], argument: object) -> None:
        try:
            self._token.run_sync_soon(callback, argument)
        except trio.RunFinishedError:
            log.debug("the broker ended before the committer")
