"""A durable queue and its dead-letter queue against lists, over publishes, deliveries, settlements and crashes.

The lists hold what must be ready, in order, and what must be out with the consumer; beside them stands what has
reached the disk. A crash leaves exactly that, in order, unacknowledged messages included; a message that was delivered
before is redelivered, unless its delivery had not reached the disk either. The window is four messages, so that nearly
everything lives on disk alone for a while.

All of it is done twice: with plain queues, and with queues that have priorities.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from bisect import insort
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from broker.admin.messages.queue_peek import UNACKNOWLEDGED, PeekRequest, peek
from broker.entities.arguments.personality import DEFAULT, Personality
from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.consumer_prefetch import Consumer
from broker.entities.queues.ordered_queue import OrderedQueue
from broker.entities.queues.queue import Queue
from broker.entities.queues.ready_messages import MemoryWindow
from harness.brokers.broker_core import Core, Reader, message
from storage.batch import SealedBatch
from storage.offline.verify_messages import verify
from tests.models.random_walk import Step, take_steps

WINDOW = MemoryWindow(4, 400)
MAIN, DEAD_LETTERS = "q", "dl"
LEVELS = 4
CUT = 5


class Lists:
    """Contents that the two queues must have, by serial number. Serials ascend with the publishes; `levels` are
    priorities."""

    def __init__(self, levels: dict[int, int]) -> None:
        self.levels = levels
        self.ready: dict[str, list[int]] = {MAIN: [], DEAD_LETTERS: []}
        self.held: list[int] = []
        self.delivered: set[int] = set()

    def place(self, serial: int) -> tuple[int, int]:
        """Return a message's place in the order of the main queue."""
        return -self.levels[serial], serial

    def add(self, serial: int) -> None:
        """A message is ready in the main queue, whether for the first time or again."""
        insort(self.ready[MAIN], serial, key=self.place)

    def give_back(self, serial: int) -> None:
        """A message that was out is ready again."""
        self.add(serial)

    def drop_exhausted(self, serial: int) -> None:
        """A message is the latest of its priority in the dead-letter queue."""
        ready = self.ready[DEAD_LETTERS]
        insort(ready, serial, key=lambda other: -self.levels[other])

    def take_first(self) -> int:
        """Take the first message of the main queue."""
        return self.ready[MAIN].pop(0)

    def clear(self) -> int:
        """Drop what a purge of the main queue drops; return the number."""
        count = len(self.ready[MAIN])
        self.ready[MAIN].clear()
        return count

    def copy(self) -> Lists:
        """The lists as they are now."""
        copied = type(self)(self.levels)
        copied.ready = deepcopy(self.ready)
        copied.held, copied.delivered = list(self.held), set(self.delivered)
        return copied

    def survivors(self, transient: set[int]) -> Lists:
        """Return the rest after the process dies with all of it on disk."""
        left = type(self)(self.levels)
        for name in (MAIN, DEAD_LETTERS):
            held = self.held if name == MAIN else []
            left.ready[name] = [serial for serial in (*self.ready[name], *held) if serial not in transient]
        left.ready[MAIN].sort(key=self.place)
        left.delivered = self.delivered - transient
        return left


class Pair:
    """A broker core, and the lists that say what it must hold."""

    def __init__(
        self, *, priorities: bool = False, personality: Personality = DEFAULT, lists: type[Lists] = Lists
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="leveret-queue-"))
        self.core = Core(self.directory / "messages", WINDOW, personality=personality)
        self.levels: dict[int, int] = {}
        self.lists, self.disk = lists(self.levels), lists(self.levels)
        self.bodies: dict[int, bytes] = {}
        self.transient: set[int] = set()
        self.redelivered: set[int] = set()
        self.in_doubt: set[int] = set()
        self.flying: list[tuple[SealedBatch, Lists]] = []
        self.serial = 0
        self.priorities = {"max_priority": LEVELS - 1} if priorities else {}
        self._declare(dead_letter_exchange="", dead_letter_routing_key=DEAD_LETTERS)
        self._attach()

    def _declare(self, **arguments: Any) -> None:
        self.core.queue(DEAD_LETTERS, **self.priorities)
        self.core.queue(MAIN, **arguments, **self.priorities)

    def level(self, priority: int) -> int:
        """The level of a message in the main queue."""
        return min(priority, LEVELS - 1) if self.priorities else 0

    def _attach(self) -> None:
        self.main, self.dead_letter_queue = self.core.queue_named(MAIN), self.core.queue_named(DEAD_LETTERS)
        self.reader = Reader()
        self.consumer: Consumer | None = None

    # What clients do

    def publish(self, count: int, size: int, *, persistent: bool, priorities: Sequence[int]) -> None:
        """Publish messages in one turn. Their priorities are taken in turn."""
        for number in range(count):
            self.serial += 1
            priority = priorities[number % len(priorities)]
            self.levels[self.serial] = self.level(priority)
            self.bodies[self.serial] = b"%d." % self.serial + b"x" * size
            if not persistent:
                self.transient.add(self.serial)
            self.lists.add(self.serial)
            self.main.publish(message(self.bodies[self.serial], key=MAIN, persistent=persistent, priority=priority))
            self._take_deliveries()
        self._end_turn()

    def get(self) -> None:
        """Take one message, unacknowledged."""
        body = self.reader.get(self.main)
        if not self.lists.ready[MAIN]:
            assert body is None
            return
        serial = self.lists.ready[MAIN][0]
        assert body == self.bodies[serial]
        self._check_redelivered(serial, self.reader.held[-1].redelivered)
        self._hand_out(serial)

    def consume(self, prefetch: int) -> None:
        """Subscribe, or end the subscription."""
        if self.consumer is None:
            self.consumer = self.reader.consume(self.main, prefetch=prefetch)
        else:
            self.main.consumers.remove(self.consumer)
            self.consumer = None
        self._end_turn()

    def settle(self, how: str, picks: list[int]) -> None:
        """Acknowledge, requeue or reject some of what is out, in any order."""
        for pick in picks:
            if not self.lists.held:
                break
            index = pick % len(self.lists.held)
            serial, entry = self.lists.held.pop(index), self.reader.held.pop(index)
            consumer = entry.consumer
            if how == "ack":
                entry.queue.settle((entry,))
            elif how == "requeue":
                self.give_back(serial, entry)
            else:
                entry.queue.reject((entry,))
                self.lists.drop_exhausted(serial)
            if consumer is not None:
                consumer.settled()
        self._end_turn()

    def give_back(self, serial: int, entry: QueuedMessage) -> None:
        """Requeue a message that is out."""
        entry.queue.requeue((entry,))
        self.redelivered.add(serial)
        self.lists.give_back(serial)

    def drop_exhausted(self) -> None:
        """Take the first message out of the dead-letter queue for good."""
        body = self.reader.get(self.dead_letter_queue, no_ack=True)
        ready = self.lists.ready[DEAD_LETTERS]
        assert body == (self.bodies[ready.pop(0)] if ready else None)

    def look(self, start: int, count: int) -> None:
        """Look at messages of both queues: they are as expected, and stay as they are."""
        for queue in (self.main, self.dead_letter_queue):
            before = _state_of(queue)
            page = trio.run(peek, queue, PeekRequest(start, count, body_bytes=CUT))
            assert _state_of(queue) == before
            serials = self.lists.ready[queue.name][start : start + count]
            assert [row["payload"].encode() for row in page.messages] == [self.bodies[each][:CUT] for each in serials]
            assert [row["position"] for row in page.messages] == list(range(start, start + len(serials)))
            if queue is self.main:
                for serial, row in zip(serials, page.messages, strict=True):
                    if serial not in self.in_doubt:
                        assert row["redelivered"] == (serial in self.redelivered), serial
        held = trio.run(peek, self.main, PeekRequest(state=UNACKNOWLEDGED, messages=1000, body_bytes=CUT)).messages
        assert [row["payload"].encode() for row in held] == [self.bodies[each][:CUT] for each in self.lists.held]

    def purge(self) -> None:
        """Drop what is ready."""
        assert self.main.purge() == self.lists.clear()
        self._end_turn()

    def forget_contents(self) -> None:
        """Let go of what is in memory and on disk, as a channel with many deliveries does."""
        for entry in self.reader.held:
            entry.release()

    # What the disk and fate do

    def seal(self) -> None:
        """Cut a batch; it is in flight from now on."""
        batch = self.core.seal()
        if batch is not None:
            self.flying.append((batch, self.lists.copy()))

    def land(self) -> None:
        """The oldest batch in flight reaches the disk."""
        if self.flying:
            batch, lists = self.flying.pop(0)
            self.core.land(batch)
            self.disk = lists
            self._end_turn()

    def commit(self) -> None:
        """Bring everything to disk."""
        self.seal()
        while self.flying:
            self.land()

    def crash(self) -> None:
        """Lose what is not on disk."""
        self.flying.clear()
        self.core.crash()
        ever = self.lists.delivered
        self.lists = self.disk.survivors(self.transient)
        self.redelivered = set(self.lists.delivered)
        self.in_doubt = ever - self.redelivered
        self.disk = self.lists.copy()
        self._attach()
        self.check()

    def restart(self) -> None:
        """Stop in order: nothing persistent is lost, not even that it was delivered."""
        self.commit()
        self.crash()

    # Comparing

    def check(self) -> None:
        """Counts agree."""
        for queue in (self.main, self.dead_letter_queue):
            ready = self.lists.ready[queue.name]
            assert len(queue.ready_messages) == len(ready), queue.name
            assert queue.ready_messages.bytes == sum(len(self.bodies[serial]) for serial in ready), queue.name
        assert self.main.unacked == len(self.lists.held) == len(self.reader.held)

    def check_disk(self) -> None:
        """The store counts what the lists hold."""
        self.commit()
        lanes = self.core.store.lanes()
        left = self.lists.survivors(self.transient)
        for queue in (self.main, self.dead_letter_queue):
            states = lanes.get(queue.store.queue_id, {}).values()
            counted = (sum(state.messages for state in states), sum(state.bytes for state in states))
            serials = left.ready[queue.name]
            assert counted == (len(serials), sum(len(self.bodies[serial]) for serial in serials)), queue.name

    def end(self) -> None:
        """Compare everything that is left, message by message."""
        self.check_disk()
        self.restart()
        while self.lists.ready[MAIN]:
            self.get()
        while self.lists.ready[DEAD_LETTERS]:
            self.drop_exhausted()
        self.settle("ack", [0] * len(self.lists.held))
        self.check_disk()

    def close(self) -> None:
        """Let go of the files, which must be sound."""
        self.core.close()
        report = verify(self.directory / "messages")
        shutil.rmtree(self.directory)
        assert report.problems == []

    def _end_turn(self) -> None:
        """Deliveries happen; each must be the next one ready."""
        self.core.end_turn()
        self._take_deliveries()
        if self.consumer is not None and self.lists.ready[MAIN]:
            assert self.consumer.unacked >= self.consumer.prefetch, "a consumer with credit was left waiting"

    def _take_deliveries(self) -> None:
        for body, redelivered in self.reader.take():
            serial = self.lists.ready[MAIN][0]
            assert body == self.bodies[serial]
            self._check_redelivered(serial, redelivered)
            self._hand_out(serial)

    def _hand_out(self, serial: int) -> None:
        self.lists.take_first()
        self.lists.held.append(serial)
        self.lists.delivered.add(serial)

    def _check_redelivered(self, serial: int, redelivered: bool) -> None:
        if serial not in self.in_doubt:
            assert redelivered == (serial in self.redelivered), serial
        self.in_doubt.discard(serial)


def _state_of(queue: Queue) -> tuple[object, ...]:
    """Everything about a queue that a look could change: its messages in memory, and its counters."""
    ready = cast(OrderedQueue, queue).ready_in_order
    contents = [(entry, entry.message, entry.redelivered, entry.deliveries) for entry in ready.resident()]
    figures = len(ready), ready.bytes, ready.in_memory, queue.unacked, queue.last_used
    return contents, figures, queue.counters.values()


def walk(seed: int, steps: int, *, priorities: bool = False) -> None:
    """A long run in which acknowledgements are common and purges rare, as in life."""
    chance = random.Random(seed)
    walk_with(chance, Pair(priorities=priorities), steps, priorities=priorities)


def walk_with(chance: random.Random, pair: Pair, steps: int, further: Sequence[Step] = (), *, priorities: bool) -> None:
    """Take steps with a pair of queues, `further` ones among them."""

    def some() -> list[int]:
        return [chance.randrange(50) for _ in range(chance.randint(1, 6))]

    def publish() -> None:
        count, size, persistent = chance.randint(1, 9), chance.choice([0, 10, 150]), chance.random() < 0.7
        levels = [chance.randint(0, LEVELS) for _ in range(chance.choice((1, 1, 4)))] if priorities else [0]
        pair.publish(count, size, persistent=persistent, priorities=levels)

    actions: list[Step] = [
        (10, publish),
        (6, pair.get),
        (2, lambda: pair.consume(chance.randint(1, 6))),
        (18, lambda: pair.settle("ack", some())),
        (5, lambda: pair.settle("requeue", some())),
        (3, lambda: pair.settle("reject", some())),
        (3, pair.drop_exhausted),
        (1, pair.purge),
        (3, pair.forget_contents),
        (8, lambda: pair.look(chance.randrange(chance.choice((1, 4, 20))), chance.randint(1, 20))),
        (4, pair.seal),
        (4, pair.land),
        (4, pair.commit),
        (2, pair.crash),
        (1, pair.restart),
        (1, pair.check_disk),
        *further,
    ]
    try:
        take_steps(chance, actions, steps, pair.check)
        pair.end()
    finally:
        pair.close()


@pytest.mark.parametrize("priorities", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_walks(seed: int, priorities: bool) -> None:
    """`make model-walks` takes longer ones."""
    walk(seed, 400, priorities=priorities)
