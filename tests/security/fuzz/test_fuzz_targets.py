"""Every target, with random bytes, and with the inputs that once found something."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest

from tests.security.fuzz.choices import Choices
from tests.security.fuzz.target_table import TARGETS
from tests.security.fuzz.targets import session_input

CORPUS = Path(__file__).parent / "corpus"
FOUND_ONCE = sorted(path for path in CORPUS.rglob("*") if path.is_file() and path.parent != CORPUS)

INPUTS = {
    "wire": 3000,
    "handshake": 500,
    "session": 200,
    "administration": 30,
    "settings": 750,
    "store": 40,
    "web": 150,
}
"""Inputs of random bytes for each target."""
OBJECTS_OF_CHANCE_MAX = 100
BYTE_COUNTS = (20, 60, 200, 600, 1500)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_found_in_random_bytes(name: str) -> None:
    chance = random.Random(f"fuzz {name}")
    with TARGETS[name]() as target:
        for _ in range(INPUTS[name]):
            data = chance.randbytes(chance.choice(BYTE_COUNTS))
            try:
                target(Choices(data))
            except Exception as error:
                error.add_note(f"the input was {data.hex()}")
                raise


@pytest.mark.parametrize("path", FOUND_ONCE, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_once_is_not_found_again(path: Path) -> None:
    with TARGETS[path.parent.name]() as target:
        target(Choices(path.read_bytes()))


@pytest.mark.slow
def test_sessions_leave_nothing_in_memory() -> None:
    """The same inputs again and again: from the second time on, as many objects as before."""
    chance = random.Random("growth")
    inputs = [chance.randbytes(600) for _ in range(60)]
    with session_input.opened() as target:
        counts = []
        for _ in range(4):
            for data in inputs:
                target(Choices(data))
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[-1] - counts[1] <= OBJECTS_OF_CHANCE_MAX, counts
