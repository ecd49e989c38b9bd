"""A few short rounds of what `make exhaustion` does for long; and mistakes that it must find.

A file system of its own and a control group need root; without, files are limited and the memory limit is set.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.exhaustion.exhausted import prepared
from tests.durability.exhaustion.plan import SMALL, Plan
from tests.durability.kills.cycle import BrokenPromiseError
from tests.planted.mistake import Exhaustion
from tests.planted.planted_catalogue import found_by, with_mistake

SEEDS = (5, 7, 86)
MISTAKE_SECONDS = 3.0
"""Seconds to wait for a mistake that shows as waiting."""

ROUNDS_MAX = 3
"""A mistake shows when what clients send meets a shortage; one round may miss that, and the campaign has many."""

pytestmark = [
    pytest.mark.slow,
    # Clients whose connection was lost leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_broker_that_runs_out_of_things(tmp_path: Path, seed: int) -> None:
    with prepared(tmp_path, Plan.drawn(seed, SMALL)) as one:
        one.go_through()
    assert one.tally.confirmed
    assert one.tally.checked


@pytest.mark.parametrize(("name", "exhaustion"), found_by(Exhaustion))
def test_a_mistake_is_found(tmp_path: Path, name: str, exhaustion: Exhaustion) -> None:
    plan = Plan.drawn(exhaustion.seed, SMALL)
    rounds = (_broken_promise(tmp_path / str(number), plan, name) for number in range(ROUNDS_MAX))
    found = next(filter(None, rounds), None)
    assert found, f"the mistake was not found in {ROUNDS_MAX} rounds"
    assert exhaustion.symptom in str(found)
    assert f"--seed {plan.seed} --rounds 1 --small" in str(found)
    assert str(tmp_path) in str(found)


def _broken_promise(directory: Path, plan: Plan, name: str) -> BrokenPromiseError | None:
    """Return the failure that a round finds in a broker with the mistake."""
    directory.mkdir()
    with prepared(directory, plan, with_mistake(name)) as one:
        one.mended_seconds = MISTAKE_SECONDS
        try:
            one.go_through()
        except BrokenPromiseError as found:
            one.abandon()
            return found
    return None
