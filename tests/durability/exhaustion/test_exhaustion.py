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
"""How long a mistake that shows as waiting is waited for."""

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
    with prepared(tmp_path, plan, with_mistake(name)) as one:
        one.mended_seconds = MISTAKE_SECONDS
        with pytest.raises(BrokenPromiseError, match=exhaustion.symptom) as found:
            one.go_through()
        one.abandon()
    assert f"--seed {plan.seed} --rounds 1 --small" in str(found.value)
    assert str(tmp_path) in str(found.value)
