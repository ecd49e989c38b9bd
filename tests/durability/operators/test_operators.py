"""A few rounds of what `make operators` does for long; and mistakes that it must find."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from broker.cli.catalogue import TOP as VERBS
from tests.durability.crash.exploring import needs_compiler
from tests.durability.faults.full_disks import SmallDisk
from tests.durability.ledgers.recovering import Recovered, recovered
from tests.durability.operators.__main__ import run
from tests.durability.operators.accepted_loss import Loss
from tests.durability.operators.broker_lives import Clients, Live, live
from tests.durability.operators.life_history import LifeHistory
from tests.durability.operators.operated_store import OperatedStore
from tests.durability.operators.operator_round import STEPS, another_store
from tests.durability.operators.stopped_commands import ASKING, COMMANDS, ELSEWHERE, NO_DIRECTORY
from tests.planted.mistake import Operators
from tests.planted.planted_catalogue import found_by, with_mistake

SEEDS = (4, 8, 9)
ROUNDS_MAX = 12
"""A mistake shows where a round's steps meet what was on the disk; the same instant does not come every time."""

pytestmark = [needs_compiler, pytest.mark.slow]


def test_every_command_is_a_step_or_has_a_reason_not_to_be() -> None:
    assert set(COMMANDS) | ASKING | ELSEWHERE | NO_DIRECTORY >= set(VERBS)
    assert {step.name for step in STEPS if step.name.startswith("leveret ")} == {f"leveret {verb}" for verb in COMMANDS}


def _without_journal(place: Path) -> tuple[LifeHistory, Recovered]:
    """Return the promises of a life that was killed, and the contents without the journal."""
    (place / "disk").mkdir(parents=True)
    store = OperatedStore(place, SmallDisk(place / "disk"), os.environ, another_store, limited=False)
    live(store, Clients(random.Random(0)), {"store": {"journal_bytes": 1 << 20}}, Live(3, stops=False))
    (store.data / "messages" / "journal").unlink()
    assert store.command(("recover", "--accept-loss")) is None
    return store.history, recovered(store.root)


@pytest.mark.parametrize("seed", SEEDS)
def test_operators_around_a_crash(tmp_path: Path, seed: int) -> None:
    done, problem = run(seed, tmp_path, dict(os.environ))
    assert problem == ""
    assert done["lives"]
    assert done["steps"]


def test_a_loss_that_is_accepted_is_of_the_last_batches_alone(tmp_path: Path) -> None:
    """LMDB alone is as everything was at a moment since it had caught up; and not as everything was in the end.

    At the instant of a kill LMDB may have all there is: then another life is tried.
    """
    for attempt in range(20):
        history, found = _without_journal(tmp_path / str(attempt))
        if history.problems(found):
            break
    end = history.copy()
    assert history.problems(found)
    history.loss = Loss.LAST
    assert history.problems(found) == []
    end.settle()
    end.loss = Loss.LAST
    assert end.problems(found)


@pytest.mark.parametrize(("name", "operators"), found_by(Operators))
def test_a_mistake_is_found(tmp_path: Path, name: str, operators: Operators) -> None:
    problems = (run(operators.seed, tmp_path, with_mistake(name), operators.steps)[1] for _ in range(ROUNDS_MAX))
    found = next(filter(None, problems), "")
    assert re.search(operators.symptom, found), f"the mistake was not found in {ROUNDS_MAX} rounds: {found}"
    assert f"--seed {operators.seed} --steps " in found
    assert f"--planted '{name}'" in found
    assert str(tmp_path) in found
