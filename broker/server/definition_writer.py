"""Writes changes of definitions to SQLite: those that arrive during one transaction are written in the next.

A change that is alone is written by the event loop at the end of its turn, as `lone_changes` decides.

A change that cannot be written fails for its client alone. A creation is then dropped. A deletion
has taken effect in memory already: it is *owed* to the disk, and tried again before every later change until it is
written. So a freed name can be used again, and no change overtakes a deletion.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import trio

from broker.entities.queues.events.event_recording import Recorder
from broker.entities.scheduling.future import Future
from broker.server.commits.lone_changes import LoneChanges
from broker.wire.amqp_errors import ConnectionException
from broker.wire.constants import ReplyCode
from storage.batch import TRANSIENT_QUEUE
from storage.definitions.definition_rows import Change, Definitions, DropTombstone
from storage.definitions.definition_store import DefinitionsError, DefinitionStore
from storage.journal.processor_waits import ProcessorWaits

log = logging.getLogger("leveret.definitions")

RETRY_SECONDS = 1.0
"""Time between two tries of an owed deletion."""
UNASKED_SECONDS = 0.5
"""Time for which a change that nobody waits for waits for others."""


class ChangeGroup(NamedTuple):
    """Changes that are written together or not at all, and the future that is resolved when they are on disk.

    `owed`: they are deletions, to be tried again if they cannot be written. `gone` is called when they are on disk.
    """

    changes: Sequence[Change]
    future: Future[None]
    owed: bool = False
    gone: Callable[[], None] | None = None


class DefinitionLog:
    """Writes changes of definitions in order, in one transaction all that have arrived.

    `wake` is called after each transaction: connections may have answers to send. `recorder`: that of the event log.
    """

    def __init__(
        self,
        store: DefinitionStore,
        highest_queue_id: int,
        wake: Callable[[], None],
        recorder: Recorder | None = None,
    ) -> None:
        self._store = store
        self._wake = wake
        self._recorder = recorder
        self._queue_id = highest_queue_id
        self.waiting: list[ChangeGroup] = []
        """Groups for the next transaction."""
        self._unasked: list[ChangeGroup] = []
        """Groups that nobody waits for: they are written with others."""
        self.policy = LoneChanges()
        self._waits = ProcessorWaits()
        self._owed: list[ChangeGroup] = []
        self._writing = trio.Lock()
        self._arrived = trio.Event()
        self._limiter = trio.CapacityLimiter(1)

    def write(self, *changes: Change) -> Future[None]:
        """Write changes together; the future is resolved when they are on disk."""
        return self._add(ChangeGroup(changes, Future()))

    def erase(self, *deletions: Change, gone: Callable[[], None] | None = None) -> Future[None]:
        """Write deletions, and try again if that fails; `gone` is called when they are on disk."""
        return self._add(ChangeGroup(deletions, Future(), True, gone))

    def _add(self, group: ChangeGroup) -> Future[None]:
        self.waiting.append(group)
        self._arrived.set()
        return group.future

    def drop_tombstones(self, queue_ids: Sequence[int]) -> None:
        """Drop the tombstones of deleted queues of which the message store holds nothing any more."""
        durable = [queue_id for queue_id in queue_ids if queue_id < TRANSIENT_QUEUE]
        if durable:
            self._unasked.append(ChangeGroup(list(map(DropTombstone, durable)), Future(), True))
            self._arrived.set()

    async def run(self) -> None:
        """Write changes as they arrive, and owed deletions every RETRY_SECONDS, until cancelled."""
        while True:
            with trio.move_on_after(RETRY_SECONDS if self._owed else math.inf):
                await self._arrived.wait()
            if self._unasked and not self.waiting:
                self._heard()
                with trio.move_on_after(UNASKED_SECONDS):
                    await self._arrived.wait()
            await self.flush()

    async def flush(self) -> None:
        """Return when all changes are written, and owed deletions have been tried once more."""
        async with self._writing:
            self._heard()
            owing = bool(self._owed or self._unasked)
            while self.waiting or owing:
                owing = False
                self._heard()
                groups = [*self._unasked, *self.waiting]
                self.waiting, self._unasked = [], []
                with trio.CancelScope(shield=True):
                    await self._commit(groups)
                self.policy.answered(perf_counter())
                self._wake()
            if self._store.wants_checkpoint:
                await self._checkpoint()

    def _heard(self) -> None:
        """Have `run` wait for the next change. An event that is not set stays: `run` may be waiting for it."""
        if self._arrived.is_set():
            self._arrived = trio.Event()

    def write_alone(self) -> None:
        """Write the change that is waiting in this thread, if it is alone. To be called at the end of a turn.

        One that cannot be written is left to the thread, which tries it again.
        """
        if self._owed or self._writing.locked():
            return
        groups = [*self._unasked, *self.waiting]
        changes = [change for group in groups for change in group.changes]
        if not self.policy.loop_writes(len(self.waiting), changes, perf_counter()):
            return
        began = self._begin_writing()
        try:
            if not self._store.commit_at_once(changes):
                return
        except DefinitionsError:
            self.policy.disk.wrote(math.inf, perf_counter())
            return
        self.waiting, self._unasked = [], []
        self.policy.disk.wrote(self._waits.seconds_of_disk(perf_counter() - began), perf_counter())
        self._written(groups)
        self.policy.answered(perf_counter())

    def _begin_writing(self) -> float:
        """Return the time, with all events recorded: a queue's end must be in the event log before it is on disk."""
        if self._recorder is not None:
            self._recorder.flush()
        return perf_counter()

    async def _commit(self, groups: list[ChangeGroup]) -> None:
        changes = [change for group in (*self._owed, *groups) for change in group.changes]
        self._begin_writing()
        try:
            await trio.to_thread.run_sync(self._timed_commit, changes, limiter=self._limiter)
        except DefinitionsError as error:
            if len(groups) > 1:  # each alone, so that only the one at fault fails
                for group in groups:
                    await self._commit([group])
                return
            for group in groups:
                self._fail(group, error)
            return
        self._settle_debts()
        self._written(groups)

    def _timed_commit(self, changes: Sequence[Change]) -> None:
        """Commit, in a thread."""
        began = perf_counter()
        self._store.commit(changes)
        self.policy.disk.wrote(self._waits.seconds_of_disk(perf_counter() - began), perf_counter())

    def _written(self, groups: Sequence[ChangeGroup]) -> None:
        for group in groups:
            if group.gone is not None:
                group.gone()
            group.future.resolve(None)

    async def _checkpoint(self) -> None:
        """Have SQLite begin its log again. On a full disk it goes on with the log."""
        try:
            await trio.to_thread.run_sync(self._store.checkpoint, limiter=self._limiter)
        except DefinitionsError as error:
            log.warning("SQLite's log is not moved into the file yet: %s", error)

    def _fail(self, group: ChangeGroup, error: DefinitionsError) -> None:
        log.error("cannot write definitions: %s", error)
        if group.owed:
            self._owed.append(group)
        group.future.fail(ConnectionException(ReplyCode.RESOURCE_ERROR, str(error)))

    def _settle_debts(self) -> None:
        """Forget the owed deletions, which have just been written with the others."""
        owed, self._owed = self._owed, []
        for group in owed:
            if group.gone is not None:
                group.gone()
        if owed:
            log.warning("%d deletions that could not be written are on disk now", len(owed))

    async def load(self) -> Definitions:
        """Return all definitions on disk. Raises DefinitionsError."""
        return await trio.to_thread.run_sync(self._store.load, limiter=self._limiter)

    # Ids of queues

    def lift_queue_id(self, highest: int) -> None:
        """Give new queues ids above this one: it is in the store already."""
        self._queue_id = max(self._queue_id, highest)

    def new_queue_id(self) -> int:
        """Return an id that no durable queue or delay queue has ever had."""
        self._queue_id += 1
        assert self._queue_id < TRANSIENT_QUEUE, f"queue id {self._queue_id} is in the range of transient queues"
        return self._queue_id
