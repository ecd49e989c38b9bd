"""A quorum queue of 4.3 against lists, as in test_queue_model: priorities, returns, delayed retry.

Returned messages are before all others, in the order of their return; with delayed retry, once they are due. A crash
leaves those that were delayed, in the order of their due times, before the others, which are in publish order by
priority.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from broker.entities.arguments.personality import PERSONALITIES
from broker.entities.messages.message import QueuedMessage
from broker.entities.queues.quorum.quorum_queue import QuorumQueue
from tests.models.random_walk import Step
from tests.models.test_queue_model import DEAD_LETTERS, MAIN, Lists, Pair, walk_with

DELAY = 100


class QuorumLists(Lists):
    """Contents that a quorum queue and its dead-letter queue must have."""

    def __init__(self, levels: dict[int, int]) -> None:
        super().__init__(levels)
        self.returned = 0
        """Number of ready messages that were returned, which are the first ones."""
        self.waiting: list[int] = []
        """Delayed messages, in the order of their due times."""
        self.delayed: dict[int, tuple[int, int]] = {}
        """Messages that were delayed: when they are due, and a number that ascends."""
        self.counts: dict[int, int] = {}
        """Deliveries of each message."""

    def add(self, serial: int) -> None:
        returned, others = self.ready[MAIN][: self.returned], self.ready[MAIN][self.returned :]
        self.ready[MAIN] = returned + sorted([*others, serial], key=self.place)

    def give_back(self, serial: int) -> None:
        self.ready[MAIN].insert(self.returned, serial)
        self.returned += 1

    def take_first(self) -> int:
        self.returned = max(0, self.returned - 1)
        return super().take_first()

    def delay(self, serial: int, due: int) -> None:
        """A message that was out is ready at a time."""
        self.delayed[serial] = due, len(self.delayed) + max((number for _, number in self.delayed.values()), default=0)
        self.waiting.append(serial)

    def release(self, now: int) -> None:
        """Make messages ready that are due."""
        while self.waiting and self.delayed[self.waiting[0]][0] <= now:
            self.give_back(self.waiting.pop(0))

    def clear(self) -> int:
        count = super().clear() + len(self.waiting)
        self.waiting.clear()
        self.returned = 0
        return count

    def drop_exhausted(self, serial: int) -> None:
        self.ready[DEAD_LETTERS].append(serial)

    def copy(self) -> QuorumLists:
        copied = super().copy()
        assert isinstance(copied, QuorumLists)
        copied.returned, copied.waiting, copied.delayed = self.returned, list(self.waiting), dict(self.delayed)
        copied.counts = dict(self.counts)
        return copied

    def survivors(self, transient: set[int]) -> QuorumLists:
        left = super().survivors(set())
        assert isinstance(left, QuorumLists)
        # Dead letters of transient messages are transient again.
        left.ready[DEAD_LETTERS] = [serial for serial in left.ready[DEAD_LETTERS] if serial not in transient]
        kept = [*left.ready[MAIN], *self.waiting]
        left.delayed = {serial: self.delayed[serial] for serial in kept if serial in self.delayed}
        others = sorted([serial for serial in kept if serial not in left.delayed], key=self.place)
        left.ready[MAIN] = sorted(left.delayed, key=lambda serial: left.delayed[serial]) + others
        left.returned, left.counts = len(left.delayed), dict(self.counts)
        return left


class QuorumPair(Pair):
    """A broker core of 4.3 with a quorum queue, and the lists that say what it must hold.

    After a start it is given the time in which all delays end.
    """

    def __init__(self, *, delaying: bool) -> None:
        self._delaying = delaying
        super().__init__(personality=PERSONALITIES["4.3"], lists=QuorumLists)

    def _declare(self, **arguments: Any) -> None:
        retry = {"delayed_retry_type": "all", "delayed_retry_min": DELAY} if self._delaying else {}
        self.core.queue(DEAD_LETTERS)
        self.core.queue(MAIN, queue_type="quorum", delivery_limit=-1, **retry, **arguments)

    def _attach(self) -> None:
        super()._attach()
        self.core.advance(DELAY)

    @property
    def quorum_lists(self) -> QuorumLists:
        """The lists, as those of a quorum queue."""
        assert isinstance(self.lists, QuorumLists)
        return self.lists

    def level(self, priority: int) -> int:
        return priority

    def publish(self, count: int, size: int, *, persistent: bool, priorities: Sequence[int]) -> None:
        """Publish messages, each in a turn of its own: all of them are kept."""
        for number in range(count):
            priority = priorities[number % len(priorities)]
            super().publish(1, size, persistent=persistent, priorities=[priority])

    def give_back(self, serial: int, entry: QueuedMessage) -> None:
        if not self._delaying:
            super().give_back(serial, entry)
            return
        entry.queue.requeue((entry,), rejected=serial % 2 == 0)
        self.redelivered.add(serial)
        self.quorum_lists.delay(serial, self.core.clock.time + DELAY)

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.quorum_lists.release(self.core.clock.time + milliseconds)
        self.core.advance(milliseconds)
        self._end_turn()

    def _hand_out(self, serial: int) -> None:
        entry, counts = self.reader.held[len(self.lists.held)], self.quorum_lists.counts
        counts[serial] = counts.get(serial, 0) + 1
        assert entry.deliveries == counts[serial], serial
        super()._hand_out(serial)

    def check(self) -> None:
        super().check()
        assert isinstance(self.main, QuorumQueue)
        assert self.main.returned_messages == self.quorum_lists.returned
        assert self.main.delayed_messages == len(self.quorum_lists.waiting)


def walk(seed: int, steps: int, *, delaying: bool) -> None:
    chance, pair = random.Random(seed), QuorumPair(delaying=delaying)
    further: list[Step] = [(6, lambda: pair.wait(chance.randrange(DELAY)))]
    walk_with(chance, pair, steps, further, priorities=True)


@pytest.mark.parametrize("delaying", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_walks(seed: int, delaying: bool) -> None:
    """`make model-walks` takes longer ones."""
    walk(seed, 400, delaying=delaying)
