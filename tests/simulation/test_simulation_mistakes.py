"""Mistakes are planted in the broker of a simulated world, and the world finds them.

That it is the mistakes which are found is said by `test_simulation.py`: without one these seeds find nothing.
"""

from __future__ import annotations

import pytest

from tests.simulation.seeds import replay
from tests.simulation.simulation_mistakes import MISTAKES
from tests.simulation.world.process import Process

HOURS = 4.0


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_the_world_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = MISTAKES[name]
    planted.plant(monkeypatch.setattr)
    monkeypatch.setattr(Process, "check_invariants", False)  # what is tried here is what clients can see
    assert "Broken" in replay(planted.seed, HOURS).failure.partition("\n")[0]
