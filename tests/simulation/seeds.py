"""Runs by their seeds: one, the same again, a smaller one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.world.world import CLIENTS, Failed, World

FOUND_ONCE = {
    (700008, 1): "a delayed exchange that looked at a full disk again and again",
    (2179574381, 1): "a reader of a stream that had credit again rested and waited at the same time",
    (700137, 76): "a publish on disk was doubted, because a quorum queue had got its message back",
    (700256, 4): "a queue whose expired messages waited for the disk held those behind them to the time they had come",
    (700263, 5): "a rejection without a dead-letter exchange waited for room on a full disk",
    (720194, 30): "a queue kept what it had written last in memory until it wrote again",
    (730053, 30): "a queue that had read the disk out took one message more than its window into memory",
    (720295, 150): "a queue whose disk was read out took more than its window into memory",
    (2695897509, 519): "an acknowledgement that lay unread in a pause was counted before the broker had read it",
    (2695897623, 445): "what a client gave back behind publishes that outlasted their alarm was counted at once",
    (1228925026, 45): "a purge left what one frame had given back to a quorum queue with a delivery limit",
    (1746520529, 225): "a transaction that reached a full queue, by a binding that was on its way, was refused",
    (1746520694, 403): "a client that was gone was not given up: what lay unread waited for it to read its answers",
    (4180415524, 14): "a rejection that waited for room on a full disk obeyed a policy that was set after it",
    (2695897842, 1): "a message was missed that had not reached the disk, as another of its transaction had",
}
"""Seeds that have found something, in the broker or in the promises, and the virtual minutes within which they have."""
TESTED_MINUTES_MAX = 15
"""The virtual minutes of a seed that the tests run. Those that take longer are the first of `make simulate`."""


class Outcome(NamedTuple):
    """The result of a run. `failure` is empty if every promise was kept."""

    seed: int
    hash: str
    counts: Counter[str]
    failure: str

    def line(self) -> str:
        """The outcome, to be read."""
        counts = ", ".join(f"{name} {number:,}" for name, number in sorted(self.counts.items()))
        return f"{self.failure}\nseed {self.seed}, hash {self.hash}: {counts}".strip()


def replay(
    seed: int,
    hours: float,
    without: frozenset[int] = frozenset(),
    tell: Callable[[str], None] | None = None,
    *,
    audited: bool = False,
) -> Outcome:
    """Run a seed, without some of its clients perhaps, and tell everything that happens. `audited`: see `World`."""
    logging.disable(logging.CRITICAL)
    world, failure = World(seed, hours, without=without, tell=tell, audited=audited), ""
    try:
        world.run()
    except Failed as failed:
        failure = str(failed)
    finally:
        logging.disable(logging.NOTSET)
    counts = world.counts + world.promises.counts
    counts.update(runs=1, events=world.promises.event, milliseconds=world.times.now)
    return Outcome(seed, world.hash, counts, failure)


def shrink(seed: int, hours: float) -> Outcome:
    """Leave out clients as long as the run still fails; the smallest run that does."""
    without: frozenset[int] = frozenset()
    smallest = replay(seed, hours, without)
    for number in range(CLIENTS):
        outcome = replay(seed, hours, without | {number})
        if outcome.failure:
            without, smallest = without | {number}, outcome
    return smallest
