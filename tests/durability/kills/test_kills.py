"""Some cycles of kills under real clients, which `make crash-kill` does for hours; and a broker that forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.kills.cycle import BrokenPromiseError, running
from tests.planted.mistake import Kills
from tests.planted.planted_catalogue import found_by, with_mistake

CYCLES = 4
CYCLES_MAX = 20

pytestmark = [
    pytest.mark.slow,
    # Clients whose connection was lost leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_kills_under_real_clients(tmp_path: Path) -> None:
    """pika and aio-pika, in all phases of the broker's life."""
    with running(tmp_path, 20) as campaign:
        campaign.cycles(CYCLES)
        campaign.end()
    assert campaign.tally.confirmed
    assert campaign.tally.checked


@pytest.mark.parametrize(("name", "kills"), found_by(Kills))
def test_a_mistake_is_found(tmp_path: Path, name: str, kills: Kills) -> None:
    with running(tmp_path, 1, with_mistake(name)) as campaign:
        with pytest.raises(BrokenPromiseError, match=kills.symptom) as found:
            campaign.cycles(CYCLES_MAX)
    assert "seed 1" in str(found.value)
    assert str(tmp_path) in str(found.value)
