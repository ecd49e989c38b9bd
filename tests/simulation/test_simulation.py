"""Seeds: those in which mistakes are found, those that have found something, and the same one twice.

For many, and for random ones, there is `make simulate`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.project import ROOT
from tests.planted.mistake import Simulation
from tests.planted.planted_catalogue import found_by
from tests.simulation.seeds import FOUND_ONCE, TESTED_MINUTES_MAX, replay
from tests.simulation.world.world import Failed, World

CLEAN_HOURS = 0.1


def test_what_goes_on_without_end_is_a_failure_with_its_seed() -> None:
    world = World(7, 0.5)

    def again() -> None:
        world.agenda.after(1, again)

    again()
    with pytest.raises(Failed, match="something has no end"):
        world.run()


@pytest.mark.parametrize(
    ("seed", "minutes"),
    [
        pytest.param(seed, minutes, marks=[pytest.mark.slow] if minutes > 10 else [])
        for seed, minutes in FOUND_ONCE
        if minutes <= TESTED_MINUTES_MAX
    ],
)
def test_what_was_found_once_is_not_found_again(seed: int, minutes: int) -> None:
    outcome = replay(seed, minutes / 60)
    assert not outcome.failure, outcome.failure


@pytest.mark.slow
@pytest.mark.parametrize("seed", sorted({run.seed for _, run in found_by(Simulation)}))
def test_a_run_keeps_every_promise(seed: int) -> None:
    outcome = replay(seed, CLEAN_HOURS)
    assert not outcome.failure, outcome.failure


def hash_of(seed: int, hash_seed: str) -> str:
    """Return the hash of a run in a process of its own."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--hours", "0.1"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return told.stdout


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_every_process() -> None:
    first, again, other = hash_of(7, "1"), hash_of(7, "2"), hash_of(9, "1")
    assert first == again
    assert "hash" in first
    assert first.partition("hash")[2] != other.partition("hash")[2]
