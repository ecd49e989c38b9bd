"""The end of turns: deliveries, output, and the start of the next commit.

Every reader task ends its turn here. Work that belongs to no client's turn - deliveries after sockets have taken
output, timers, writes without a waiter - is done by `run`, a task that sleeps until there is some.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sized
from time import thread_time
from typing import Protocol

import trio

from broker.entities.node.broker import Broker, Pace
from broker.server.commits.commit_policy import CommitLimits
from broker.server.commits.commit_thread import CommitThread
from broker.server.commits.committer import Committer, NewWriter, RecurringEvent
from storage.messages.message_store import MessageStore

log = logging.getLogger("leveret.engine")

IDLE_SECONDS = 3600.0
DELIVER_SECONDS = 0.002
"""Time for which queues deliver at the end of one turn."""
TIMERS_SECONDS = 0.001
"""Time for which due timers run in one turn."""
LONG_TURN_SECONDS = 0.01
"""CPU seconds. After a longer turn the client sleeps for half of it, so that others' publish-confirm round trips, which
take several turns, are not interleaved with long ones."""


class Wakeup:
    """Wakes the engine before the time that it has computed. Made before the broker, which calls it, and the engine."""

    def __init__(self) -> None:
        self._called = trio.Event()

    def call(self) -> None:
        """End the sleep now, or the next one at once."""
        self._called.set()

    async def sleep(self, seconds: float) -> None:
        """Return after this time, or once `call` has been called since the last sleep."""
        with trio.move_on_after(seconds):
            await self._called.wait()
        await trio.lowlevel.checkpoint()
        self._called = trio.Event()

    @property
    def pace(self) -> Pace:
        """The pace of a broker with an engine that sleeps by this."""
        return Pace(self.call, DELIVER_SECONDS, TIMERS_SECONDS)


class Activity:
    """Tells periodic tasks whether the broker is idle, so that an idle broker wakes up for none of them.

    Tasks that check something every second or so call `pause` in between. `count` is the number of turns ended so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self.turn_ended = RecurringEvent()

    async def anything(self) -> None:
        """Sleep until a turn ends."""
        await self.turn_ended.next().wait()

    async def pause(self, seconds: float) -> None:
        """Sleep for `seconds`, and then, if no turn has ended meanwhile, until one ends."""
        before = self.count
        await trio.sleep(seconds)
        if self.count == before:
            await self.anything()


class Changes(Protocol):
    """The log of definitions as a turn's end sees it: see `DefinitionLog`."""

    @property
    def waiting(self) -> Sized:
        """Changes for the next transaction."""

    def write_alone(self) -> None:
        """Write the change that is waiting, if it is alone."""


class Engine:
    """Ends turns, and runs those that no client's input begins: timers, lazy flushes, the end of commits.

    It makes the committer, because the end of a turn begins a commit, and the end of a commit ends a turn. `on_full`,
    `on_reclaimed` and `writer` are the committer's. `changes`: the log of definitions. `turn_clock` returns the CPU
    seconds by which turns are measured.
    """

    def __init__(
        self,
        broker: Broker,
        store: MessageStore,
        wakeup: Wakeup,
        limits: CommitLimits,
        *,
        lazy_flush_seconds: float,
        on_full: Callable[[bool], None],
        on_reclaimed: Callable[[list[int]], None],
        changes: Changes | None = None,
        turn_clock: Callable[[], float] = thread_time,
        writer: NewWriter = CommitThread,
    ) -> None:
        self.broker = broker
        self.turn_clock = turn_clock
        self.turn_seconds = broker.statistics.measurements.turn_seconds
        self.committer = Committer(
            broker, store, limits, on_stored=self.end_turn, on_full=on_full, on_reclaimed=on_reclaimed, writer=writer
        )
        self.activity = Activity()
        self._changes = changes
        self._store = store
        self.wake = wakeup.call
        self._wakeup = wakeup
        self._lazy_flush_seconds = lazy_flush_seconds
        self._lazy_flush_at: float | None = None
        self._running = trio.CancelScope()

    def end_turn(self) -> None:
        """Deliver from touched queues, send output, and begin a commit if one is due."""
        changes = self._changes
        if changes is not None and changes.waiting and not self._others_wait():
            changes.write_alone()
        turn = self.broker.turn
        turn.end()
        self.activity.count += 1
        if self.activity.turn_ended.awaited is not None:
            self.activity.turn_ended.happened()
        batches = self.broker.batches
        if batches.current.waiters and batches.current.number not in self.committer.waiting:
            self.committer.waiting[batches.current.number] = trio.current_time()
        batches.seal_if_full()
        self.committer.start_commit()
        if self._store.corrupt:
            self._report_corrupt()
        # What is left is the engine's: deliveries beyond the turn's time at once, a batch without waiters after 10 ms.
        if turn.pending:
            self._wakeup.call()
        elif self._lazy_flush_at is None and not batches.current.empty:
            self._lazy_flush_at = trio.current_time() + self._lazy_flush_seconds
            self._wakeup.call()

    def _others_wait(self) -> bool:
        """Return True if somebody waits for messages to be on disk."""
        return self.committer.busy or bool(self.broker.batches.current.waiters)

    async def run(self) -> None:
        """Run timers, lazy flushes and pending deliveries when they are due, until `stop`."""
        with self._running:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.committer.deferred.run)
                await self._run_what_is_due()

    async def _run_what_is_due(self) -> None:
        while True:
            await self._wakeup.sleep(self._seconds_to_wait())
            began = self.turn_clock()
            self.broker.timers.run(self.broker.clock.now())
            if self._lazy_flush_at is not None and self._lazy_flush_at <= trio.current_time():
                self._lazy_flush_at = None
                self.committer.start_commit(lazily=True)
            self.end_turn()
            seconds = self.turn_clock() - began
            if seconds > LONG_TURN_SECONDS:
                await trio.sleep(seconds / 2)

    def stop(self) -> None:
        """Run no turns any more: a batch that they would add to might not be committed before the process ends."""
        self._running.cancel()

    def _seconds_to_wait(self) -> float:
        due = self.broker.timers.next_due()
        waits = [IDLE_SECONDS] if due is None else [min(IDLE_SECONDS, self.broker.clock.seconds_until(due))]
        if self._lazy_flush_at is not None:
            waits.append(max(0.0, self._lazy_flush_at - trio.current_time()))
        return min(waits)

    def _report_corrupt(self) -> None:
        """Log the records that the store has set aside, and take their messages out of the queues' counts."""
        while self._store.corrupt:
            record = self._store.corrupt.popleft()
            queue = self.broker.queues_by_id.get(record.queue_id)
            name = record.queue_id if queue is None else f"'{queue.name}'"
            log.error("%d messages of queue %s cannot be read and were set aside: %s", record.messages, name, record)
            if queue is not None:
                queue.store.lost(record.lane, record.messages, record.bytes)
