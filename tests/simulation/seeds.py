"""Runs by their seeds: one, the same again, a smaller one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.world.world import CLIENTS, Failed, World


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
) -> Outcome:
    """Run a seed, without some of its clients perhaps, and tell everything that happens."""
    logging.disable(logging.CRITICAL)
    world, failure = World(seed, hours, without=without, tell=tell), ""
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
