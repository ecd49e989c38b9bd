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
from tests.simulation.seeds import replay
from tests.simulation.world.world import Failed, World

CLEAN_HOURS = 1.0


def test_what_goes_on_without_end_is_a_failure_with_its_seed() -> None:
    world = World(7, 0.5)

    def again() -> None:
        world.agenda.after(1, again)

    again()
    with pytest.raises(Failed, match="something has no end"):
        world.run()


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


@pytest.mark.parametrize(
    ("seed", "minutes"), [pytest.param(*run, marks=[pytest.mark.slow] if run[1] > 10 else []) for run in FOUND_ONCE]
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
    command = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--hours", "0.5"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    told = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return told.stdout


@pytest.mark.slow
def test_a_seed_is_the_same_run_in_every_process() -> None:
    first, again, other = hash_of(7, "1"), hash_of(7, "2"), hash_of(9, "1")
    assert first == again
    assert "hash" in first
    assert first.partition("hash")[2] != other.partition("hash")[2]
