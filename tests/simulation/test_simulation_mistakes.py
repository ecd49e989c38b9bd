"""Mistakes are planted in the broker of a simulated world, and the world finds them.

`test_simulation.py` shows that it is the mistakes which are found: without one these seeds find nothing.
"""

from __future__ import annotations

import pytest

from tests.planted.mistake import Simulation
from tests.planted.planted_catalogue import CATALOGUE, found_by
from tests.simulation.seeds import replay
from tests.simulation.world.process import Process

HOURS = 4.0


@pytest.mark.slow
@pytest.mark.pure_core("mistakes are planted")
@pytest.mark.parametrize(("name", "run"), found_by(Simulation))
def test_a_mistake_is_found(name: str, run: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    CATALOGUE[name].plant(monkeypatch.setattr)
    monkeypatch.setattr(Process, "check_invariants", False)  # what is tried here is what clients can see
    assert "Broken" in replay(run.seed, HOURS).failure.partition("\n")[0]
