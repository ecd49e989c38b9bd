"""Whole brokers that share a second place, in virtual time; and mistakes that these worlds must find."""

from __future__ import annotations

import pytest

from tests.planted.mistake import FencedWorlds
from tests.planted.planted_catalogue import CATALOGUE, found_by
from tests.simulation.second_place.fenced_world import Failed, FencedWorld

SEEDS = (4, 27, 48, 1003, 1008)
"""Two promotions, with a split; a broker that serves while its place is gone, and was fenced; dropped records; a place
that was full when a number was to be taken, and listed it late."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_confirmed_is_missing_on_the_promoted_broker(seed: int) -> None:
    world = FencedWorld(seed)
    world.run()
    assert world.counts["promotions"]
    assert world.counts["confirmed"] > 100


@pytest.mark.slow
def test_a_seed_is_a_run() -> None:
    runs = [FencedWorld(SEEDS[0]) for _ in range(2)]
    for run in runs:
        run.run()
    assert runs[0].hash == runs[1].hash


@pytest.mark.slow
@pytest.mark.pure_core("mistakes are planted")
@pytest.mark.parametrize(("name", "worlds"), found_by(FencedWorlds))
def test_a_planted_mistake_is_found(name: str, worlds: FencedWorlds, monkeypatch: pytest.MonkeyPatch) -> None:
    CATALOGUE[name].plant(monkeypatch.setattr)
    with pytest.raises(Failed, match=worlds.symptom):
        FencedWorld(worlds.seed).run()
