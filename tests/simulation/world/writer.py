"""The committer's steps in virtual time: the real ones, each taken when the world says so.

A step may be on disk long before anybody is told of it; and the process may die before, between and after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import ceil
from typing import Any

from broker.server.commits.commit_policy import CommitPolicy
from broker.server.commits.commit_thread import CommitSignal, CommitSteps, Item, Progress
from storage.batch import SealedBatch
from storage.messages.message_store import MessageStore
from tests.simulation.world.disk import Disk, SizedStore

Later = Callable[[int, Callable[[], None]], None]
"""Does something after a number of milliseconds, if the process is still alive."""


class SimulatedWriter:
    """In place of the committer's thread. `on_crash` is called when the process dies of a commit."""

    def __init__(
        self,
        store: MessageStore,
        progress: Progress,
        deleted: dict[int, None],
        policy: CommitPolicy,
        *,
        disk: Disk,
        later: Later,
        now: Callable[[], float],
        on_crash: Callable[[], None],
    ) -> None:
        self.committed = 0
        """Every batch up to this one is on disk."""
        self.waits_for_room = False
        """The batch in hand did not fit."""
        self._disk = disk
        self._later = later
        self._on_crash = on_crash
        self._progress = progress
        self._policy = policy
        self._handed_over: deque[Item] = deque()
        self._told: list[tuple[Callable[..., None], object]] = []
        self._store = SizedStore(store, disk)
        self._steps = CommitSteps(self._store, progress, deleted, self._tell, self._idle, policy, now).run()  # type: ignore[arg-type]
        self._busy = self._untaken = False
        self._item: Item | None = None
        self._turns = 0
        self._wait_seconds: float | None = None

    def start(self) -> None:
        """Begin."""
        next(self._steps)

    def join(self) -> None:
        """There is no thread to wait for."""

    def hand_over(self, item: Item) -> None:
        """Have a batch committed, or something done, behind what was handed over before."""
        self._handed_over.append(item)
        if not self._busy:
            self._begin()

    def commit_at_once(self, batch: SealedBatch, *, loop_busy: bool) -> bool:
        """Commit a batch here and now, half of the time that it may be, and now and then have LMDB catch up at once."""
        journal, chance = self._store.journal, self._disk.chance
        if batch.deleted_queues or self._disk.failing or chance.random() < 0.5:
            return False
        if not (self._policy.journal_takes(batch.bytes, journal.figures()) and self._store.commit_to_journal(batch)):
            return False
        self.committed = batch.number
        if chance.random() < 0.1:
            journal.make_parcel()
            self.hand_over(CommitSignal.CATCH_UP)
        elif journal.figures().first:
            self.hand_over(CommitSignal.CATCH_UP_LATER)
        return True

    def _begin(self) -> None:
        self._busy = self._untaken = True
        self._turns += 1
        self._item = self._handed_over.popleft() if self._handed_over else None
        takes = self._disk.commit_milliseconds()
        if self._disk.chance.random() < 0.5:
            self._take()
        if self._disk.kills("messages"):
            self._later(self._disk.chance.randint(0, takes), self._on_crash)
        turn = self._turns
        self._later(takes, lambda: self._land() if turn == self._turns and self._busy else None)

    def _take(self) -> None:
        """Do what was handed over, for good; nobody has been told yet."""
        item, self._item, self._untaken = self._item, None, False
        self._wait_seconds = self._steps.send(item)

    def _land(self) -> None:
        if self._disk.failing:
            self._on_crash()
        else:
            self.finish_step()

    def finish_step(self) -> None:
        """Take the step that is due, tell of it, and begin the next one if there is something to do."""
        if self._untaken:
            self._take()
        told, self._told = self._told, []
        self._busy = False
        for callback, argument in told:
            callback(argument)
        if self._handed_over and not self._busy:
            self._begin()
        elif self._wait_seconds is not None and not self._busy:
            turn, milliseconds = self._turns, ceil(self._wait_seconds * 1000)
            self._later(milliseconds, lambda: self._begin() if turn == self._turns and not self._busy else None)

    def end(self) -> None:
        """The process is gone; what is in flight has reached the disk, or a part of it that nothing refers to."""
        if self._untaken and self._disk.chance.random() < 0.5:
            self._take()
        elif self._untaken and isinstance(self._item, SealedBatch):
            self._disk.write_in_vain(self._item.put_bytes)

    def _tell(self, callback: Callable[..., Any], argument: object) -> None:
        if isinstance(argument, SealedBatch) and callback == self._progress.stored:
            self.committed = argument.number
        elif callback == self._progress.disk_full:
            self.waits_for_room = bool(argument)
        self._told.append((callback, argument))

    def _idle(self) -> bool:
        return not self._handed_over and self._disk.chance.random() < 0.5
