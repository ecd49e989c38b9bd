"""The same world with hypothesis in the place of chance: it looks for the shortest way to break a promise."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.simulation.acts import ACTS, Act
from tests.simulation.world import final_count
from tests.simulation.world.mishaps import FAULTS, Fault
from tests.simulation.world.virtual_time import governing
from tests.simulation.world.world import World

CLIENTS = 3

acts = st.sampled_from([act for _, act in ACTS])
faults = st.sampled_from([fault for _, fault in FAULTS])
chances = st.integers(0, 1 << 16).map(Random)


class WorldMachine(RuleBasedStateMachine):
    """Any order of acts and mishaps."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self._broken = False
        logging.disable(logging.CRITICAL)

    @initialize(seed=st.integers(0, 100))
    def begin(self, seed: int) -> None:
        self.world = World(seed, 0.0)
        self._governing = governing(self.world.times)
        self._governing.__enter__()
        self._do(self.world.begin)

    @rule(number=st.integers(0, CLIENTS - 1), act=acts, chance=chances)
    def act(self, number: int, act: Act, chance: Random) -> None:
        self._do(lambda: self.world.now(lambda: self.world.act(number, act, chance)))

    @rule(fault=faults, chance=chances)
    def go_wrong(self, fault: Fault, chance: Random) -> None:
        if not self.world.down:
            self._do(lambda: self.world.now(lambda: fault(self.world, chance)))

    @rule(milliseconds=st.sampled_from((1, 10, 100, 3_000, 60_000, 7_200_000)))
    def wait(self, milliseconds: int) -> None:
        self._do(lambda: self.world.wait(milliseconds))

    def _do(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BaseException:
            self._broken = True
            raise

    def teardown(self) -> None:
        try:
            if not self._broken:
                final_count.settle(self.world)
        finally:
            self.world.clean()
            self._governing.__exit__(None, None, None)
            logging.disable(logging.NOTSET)


TestWorldMachine = pytest.mark.slow(WorldMachine.TestCase)
TestWorldMachine.settings = settings(
    max_examples=30, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
