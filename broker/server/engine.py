"""Where turns end: deliveries, output, and the start of the next commit.

Every reader task ends its turn here. What cannot be done at once - more to deliver after sockets have taken
output, timers, writes that nobody waits for - is left to `run`, a task that sleeps until there is some.
"""

from __future__ import annotations

import logging
from time import thread_time

import trio

from broker.entities.vhosts.broker import Broker
from broker.server.committer import Committer
from storage.messages.message_store import MessageStore

log = logging.getLogger("leveret.engine")

IDLE_SECONDS = 3600.0
DELIVER_SECONDS = 0.005
"""How long queues deliver at the end of one turn."""
TIMERS_SECONDS = 0.002
"""How long what is due is done in one turn."""
LONG_TURN_SECONDS = 0.01
"""Of processor time. After a longer turn a client waits half as long, and so do those in line behind it: others need
several turns to publish and be confirmed, and would wait for one so long between each two of them."""


class Engine:
    """Ends turns, and begins those that no client's bytes begin."""

    def __init__(self, broker: Broker, store: MessageStore, committer: Committer, lazy_flush_seconds: float) -> None:
        self.broker = broker
        self._store = store
        self._committer = committer
        self._lazy_flush_seconds = lazy_flush_seconds
        self._lazy_flush_at: float | None = None
        self._wake = trio.Event()
        self.line = trio.Lock()
        """Where connections stand that have more to do than a turn allows: one of them goes on each time round, so that
        those with little to do wait for one long turn, not for as many as there are busy clients."""
        broker.timers.changed = self._wake_up
        broker.turn.seconds_max = DELIVER_SECONDS
        broker.timers.seconds_max = TIMERS_SECONDS

    def end_turn(self) -> None:
        """Deliver what the turn has made ready, send what it had to say, and see to the disk."""
        turn = self.broker.turn
        turn.end()
        self.broker.batches.seal_if_full()
        self._committer.start_commit()
        if self._store.corrupt:
            self._report_corrupt()
        if turn.pending:
            self._wake_up()
        elif self._lazy_flush_at is None and not self.broker.batches.current.empty:
            self._lazy_flush_at = trio.current_time() + self._lazy_flush_seconds
            self._wake_up()

    async def run(self) -> None:
        """Run timers, lazy flushes and turns left over, each when its time has come."""
        while True:
            with trio.move_on_after(self._seconds_to_wait()):
                await self._wake.wait()
            await trio.lowlevel.checkpoint()
            self._wake = trio.Event()
            began = thread_time()
            self.broker.timers.run(self.broker.clock.now())
            if self._lazy_flush_at is not None and self._lazy_flush_at <= trio.current_time():
                self._lazy_flush_at = None
                self._committer.start_commit(lazily=True)
            self.end_turn()
            seconds = thread_time() - began
            if seconds > LONG_TURN_SECONDS:
                await trio.sleep(seconds / 2)

    def _seconds_to_wait(self) -> float:
        due = self.broker.timers.next_due()
        waits = [IDLE_SECONDS] if due is None else [max(0.0, (due - self.broker.clock.now()) / 1000)]
        if self._lazy_flush_at is not None:
            waits.append(max(0.0, self._lazy_flush_at - trio.current_time()))
        return min(waits)

    def _wake_up(self) -> None:
        self._wake.set()

    def _report_corrupt(self) -> None:
        for record in self._store.corrupt:
            queue = self.broker.queues_by_id.get(record.queue_id)
            name = record.queue_id if queue is None else f"'{queue.name}'"
            log.error("%d messages of queue %s cannot be read and were set aside: %s", record.messages, name, record)
            if queue is not None:
                queue.store.lost(record.lane, record.messages, record.bytes)
        self._store.corrupt.clear()
