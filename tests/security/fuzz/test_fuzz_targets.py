"""Every target, with choices that hypothesis makes, random bytes, and the inputs that once found something."""

from __future__ import annotations

import gc
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.security.fuzz.choices import Drawn, Given
from tests.security.fuzz.target_table import TARGETS, Target
from tests.security.fuzz.targets import session_input

CORPUS = Path(__file__).parent / "corpus"
FOUND_ONCE = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.parent != CORPUS)

EXAMPLES = {
    "wire": 400,
    "handshake": 150,
    "session": 150,
    "administration": 25,
    "settings": 100,
    "store": 60,
    "web": 60,
}
"""How many hypothesis makes of each, ..."""
BYTES = {
    "wire": 8000,
    "handshake": 1500,
    "session": 600,
    "administration": 40,
    "settings": 1500,
    "store": 60,
    "web": 400,
}
"""... and how many are made of random bytes: less choice in what comes next, but a hundred times as fast."""
STEPS_MAX = 12
OBJECTS_OF_CHANCE_MAX = 100
BYTE_COUNTS = (20, 60, 200, 600, 1500)


@pytest.fixture(scope="module", params=TARGETS)
def opened(request: pytest.FixtureRequest) -> Iterator[tuple[str, Target]]:
    """A target and its name."""
    with TARGETS[request.param]() as target:
        yield request.param, target


@pytest.mark.slow
def test_nothing_is_found_by_choice(opened: tuple[str, Target]) -> None:
    name, target = opened
    unhurried = settings(
        max_examples=EXAMPLES[name],
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )

    @unhurried
    @given(st.data())
    def take(data: st.DataObject) -> None:
        target(Drawn(data, STEPS_MAX))

    take()


@pytest.mark.slow
def test_nothing_is_found_in_random_bytes(opened: tuple[str, Target]) -> None:
    name, target = opened
    chance = random.Random(f"fuzz {name}")
    for _ in range(BYTES[name]):
        data = chance.randbytes(chance.choice(BYTE_COUNTS))
        try:
            target(Given(data))
        except Exception as error:
            error.add_note(f"the input was {data.hex()}")
            raise


@pytest.mark.parametrize("path", FOUND_ONCE, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_not_found_again(path: Path) -> None:
    with TARGETS[path.parent.name]() as target:
        target(Given(path.read_bytes()))


@pytest.mark.slow
def test_sessions_leave_nothing_in_memory() -> None:
    """The same inputs again and again: from the second time on, as many objects as before."""
    chance = random.Random("growth")
    inputs = [chance.randbytes(600) for _ in range(60)]
    with session_input.opened() as target:
        counts = []
        for _ in range(4):
            for data in inputs:
                target(Given(data))
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[1] <= OBJECTS_OF_CHANCE_MAX, counts
