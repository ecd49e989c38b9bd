"""The thread that commits: it takes the steps of `commit_steps`, and sleeps in between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

import trio

from broker.server.commits.commit_policy import CommitPolicy
from broker.server.commits.commit_steps import CommitSteps, CommitStore, Item, Progress, Signal
from storage.batch import SealedBatch

log = logging.getLogger("leveret.commit_thread")


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
