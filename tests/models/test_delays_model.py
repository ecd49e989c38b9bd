"""A delayed exchange and the queue behind it against two lists: in order of due time, ties in publish order.

Beside them stands what has reached the disk. A crash leaves exactly that. The window is four messages, so that most of
what waits is on disk alone.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from broker.entities.queues.delay_queue import DelayQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.ready_messages import Window
from harness.brokers.broker_core import Core, Reader, message
from storage.batch import SealedBatch
from storage.messages.verify_messages import verify


class Lists(NamedTuple):
    """What waits, by due time and serial number, and what has arrived, by serial number."""

    waiting: list[tuple[int, int]]
    ready: list[int]

    def copy(self) -> Lists:
        return Lists(list(self.waiting), list(self.ready))

    def survivors(self, transient: set[int]) -> Lists:
        """What of it outlives the process."""
        waiting = [(due, serial) for due, serial in self.waiting if serial not in transient]
        return Lists(waiting, [serial for serial in self.ready if serial not in transient])


class DelaysMachine(RuleBasedStateMachine):
    """Publishes, lets time pass, brings batches to disk, takes messages, crashes."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="leveret-delays-"))
        self.core = Core(self.directory / "messages", Window(4, 4000))
        exchange = self.core.exchange("later", "x-delayed-message", arguments={"x-delayed-type": "fanout"})
        self.core.bind(exchange, self.core.queue("q"))
        self.lists, self.disk = Lists([], []), Lists([], [])
        self.flying: deque[tuple[SealedBatch, Lists]] = deque()
        self.transient: set[int] = set()
        self.serial = 0

    @property
    def delays(self) -> DelayQueue:
        delays = self.core.vhost.exchange("later").delays
        assert delays is not None
        return delays

    @property
    def queue(self) -> Queue:
        return self.core.queue_named("q")

    @rule(delay=st.integers(1, 40), size=st.sampled_from([6, 300, 5000]), persistent=st.booleans())
    def publish(self, delay: int, size: int, *, persistent: bool) -> None:
        self.serial += 1
        body = (b"%d." % self.serial).ljust(size, b"x")
        made = message(body, exchange="later", persistent=persistent, headers={"x-delay": delay})
        assert self.delays.publish(made) == persistent
        self.core.end_turn()
        self.lists.waiting.append((self.core.clock.now() + delay, self.serial))
        if not persistent:
            self.transient.add(self.serial)

    @rule(milliseconds=st.integers(0, 30))
    def pass_time(self, milliseconds: int) -> None:
        self.core.advance(milliseconds)
        self._release()

    def _release(self) -> None:
        due = sorted(entry for entry in self.lists.waiting if entry[0] <= self.core.clock.now())
        for entry in due:
            self.lists.waiting.remove(entry)
            self.lists.ready.append(entry[1])

    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        for _ in range(min(count, len(self.lists.ready))):
            body = Reader().get(self.queue, no_ack=True)
            assert body is not None
            assert int(body.split(b".")[0]) == self.lists.ready.pop(0)
        self.core.end_turn()

    @rule()
    def seal(self) -> None:
        batch = self.core.seal()
        if batch is not None:
            self.flying.append((batch, self.lists.copy()))

    @rule()
    def land(self) -> None:
        if self.flying:
            batch, lists = self.flying.popleft()
            self.core.land(batch)
            self.disk = lists

    @rule(down=st.integers(0, 30))
    def crash(self, down: int) -> None:
        self.flying.clear()
        self.lists = self.disk.survivors(self.transient)
        self.disk = self.lists.copy()
        self.core.clock.time += down
        self.core.crash()
        assert self.delays.messages == len(self.lists.waiting)
        self.core.advance(0)
        self._release()

    @invariant()
    def counts_agree(self) -> None:
        assert self.delays.messages == len(self.lists.waiting)
        assert len(self.queue.ready_messages) == len(self.lists.ready)
        persistent = [serial for _, serial in self.lists.waiting if serial not in self.transient]
        assert self.delays.store.state.messages == len(persistent)

    def teardown(self) -> None:
        try:
            while self.flying:
                self.land()
            self.core.advance(100)
            self._release()
            self.take(len(self.lists.ready))
            self.core.commit()
            self.core.close()
            assert verify(self.directory / "messages").problems == []
        finally:
            shutil.rmtree(self.directory)


TestDelays = DelaysMachine.TestCase
TestDelays.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
