"""Where turns end: deliveries, output, and the start of the next commit.

Every reader task ends its turn here. What cannot be done at once - more to deliver after sockets have taken
output, timers, writes without a waiter - is left to `run`, a task that sleeps until there is some.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import thread_time

import trio

from broker.entities.node.broker import Broker, Pace
from broker.server.commits.commit_policy import CommitLimits
from broker.server.commits.commit_thread import CommitThread
from broker.server.commits.committer import Committer, NewWriter, RecurringEvent
from storage.messages.message_store import MessageStore

log = logging.getLogger("leveret.engine")

IDLE_SECONDS = 3600.0
DELIVER_SECONDS = 0.002
"""How long queues deliver at the end of one turn."""
TIMERS_SECONDS = 0.001
"""How long what is due is done in one turn."""
LONG_TURN_SECONDS = 0.01
"""Of processor time. After a longer turn a client waits half as long, and so do those in line behind it: others need
several turns to publish and be confirmed, and would wait for one so long between each two of them."""


class Wakeup:
    """Ends an engine's sleep: there is something to do earlier than it knew. Made before both sides of it."""

    def __init__(self) -> None:
        self._called = trio.Event()

    def call(self) -> None:
        """End the sleep, or the next one if there is none now."""
        self._called.set()

    async def sleep(self, seconds: float) -> None:
        """Return when `call` has been called since the last sleep, or after this time."""
        with trio.move_on_after(seconds):
            await self._called.wait()
        await trio.lowlevel.checkpoint()
        self._called = trio.Event()

    @property
    def pace(self) -> Pace:
        """That of a broker whose turns an engine ends that sleeps by this."""
        return Pace(self.call, DELIVER_SECONDS, TIMERS_SECONDS)


class Activity:
    """Whether anything happens: where nothing does, nothing has to be looked at again and again.

    Tasks that look at something every second or so `pause` in between: an idle broker wakes up for none of them.
    `count` grows with each turn that ends, which is one of the `turns`.
    """

    def __init__(self) -> None:
        self.count = 0
        self.turn_ended = RecurringEvent()

    async def anything(self) -> None:
        """Sleep until something happens."""
        await self.turn_ended.next().wait()

    async def pause(self, seconds: float) -> None:
        """Sleep so long, and then, if nothing has happened meanwhile, until something does."""
        before = self.count
        await trio.sleep(seconds)
        if self.count == before:
            await self.anything()


class Engine:
    """Ends turns, and begins those that no client's bytes begin.

    The committer is its own: the end of a turn begins a commit, and the end of a commit ends a turn. `on_full` and
    `on_reclaimed` are the committer's. `turn_clock` gives the seconds of processor time by which turns are measured.
    `writer` makes what writes batches.
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
        self._store = store
        self.wake = wakeup.call
        self._wakeup = wakeup
        self._lazy_flush_seconds = lazy_flush_seconds
        self._lazy_flush_at: float | None = None
        self._running = trio.CancelScope()

    def end_turn(self) -> None:
        """Deliver what the turn has made ready, send what it had to say, and see to the disk."""
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
        if turn.pending:
            self._wakeup.call()
        elif self._lazy_flush_at is None and not batches.current.empty:
            self._lazy_flush_at = trio.current_time() + self._lazy_flush_seconds
            self._wakeup.call()

    async def run(self) -> None:
        """Run timers, lazy flushes and turns left over, each when its time has come, until `stop`."""
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
        """Begin no turn any more. What comes due is left to the next start: its batch might never be committed."""
        self._running.cancel()

    def _seconds_to_wait(self) -> float:
        due = self.broker.timers.next_due()
        waits = [IDLE_SECONDS] if due is None else [min(IDLE_SECONDS, self.broker.clock.seconds_until(due))]
        if self._lazy_flush_at is not None:
            waits.append(max(0.0, self._lazy_flush_at - trio.current_time()))
        return min(waits)

    def _report_corrupt(self) -> None:
        while self._store.corrupt:
            record = self._store.corrupt.popleft()
            queue = self.broker.queues_by_id.get(record.queue_id)
            name = record.queue_id if queue is None else f"'{queue.name}'"
            log.error("%d messages of queue %s cannot be read and were set aside: %s", record.messages, name, record)
            if queue is not None:
                queue.store.lost(record.lane, record.messages, record.bytes)
