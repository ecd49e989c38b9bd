"""The loop of kills finds a broker that confirms too early, or forgets; `make crash-kill` runs it for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.kills.cycle import BrokenPromiseError, running
from tests.planted.planted_catalogue import with_mistake

CYCLES_MAX = 20

pytestmark = [
    pytest.mark.slow,
    # Clients whose connection was lost leave sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [
        ("confirm before commit", "is lost"),
        ("acknowledgement forgotten", "which was gone|which should be in|is there 2 times|half a transaction"),
    ],
)
def test_a_mistake_is_found(tmp_path: Path, planted: str, symptom: str) -> None:
    with running(tmp_path, 1, with_mistake(planted)) as campaign:
        with pytest.raises(BrokenPromiseError, match=symptom) as found:
            campaign.cycles(CYCLES_MAX)
    assert "seed 1" in str(found.value)
    assert str(tmp_path) in str(found.value)
