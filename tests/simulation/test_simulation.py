"""Seeds: a few that are always the same, a few that nobody has chosen, and the same one twice.

For many there is `make simulate`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.project import ROOT
from tests.simulation.seeds import replay

HOURS = 4.0
UNCHOSEN = 12
"""How many random seeds."""


def test_a_short_run_keeps_every_promise() -> None:
    outcome = replay(8, 0.5)
    assert outcome.counts["acts"] > 100
    assert not outcome.failure, outcome.failure


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 13))
def test_a_run_keeps_every_promise(seed: int) -> None:
    outcome = replay(seed, HOURS)
    assert not outcome.failure, outcome.failure


@pytest.mark.slow
def test_seeds_that_nobody_has_chosen_keep_every_promise() -> None:
    first = int.from_bytes(os.urandom(4), "big")
    print(f"seeds from {first}; see one again with: python -m tests.simulation --hours {HOURS:g} --seed SEED")
    for seed in range(first, first + UNCHOSEN):
        outcome = replay(seed, HOURS)
        assert not outcome.failure, outcome.failure


def hash_of(seed: int, hash_seed: str) -> str:
    """What a process of its own tells of a run."""
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--hours", "3"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return told.stdout


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_every_process() -> None:
    first, again, other = hash_of(7, "1"), hash_of(7, "2"), hash_of(9, "1")
    assert first == again
    assert "hash" in first
    assert first.partition("hash")[2] != other.partition("hash")[2]
