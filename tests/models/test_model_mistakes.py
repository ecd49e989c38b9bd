"""A model is only worth what it finds: some walk must find each mistake. Without one all walks pass, see the models."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from tests.models import test_limits_model, test_queue_model
from tests.planted.mistake import Model
from tests.planted.planted_catalogue import CATALOGUE, found_by
from tests.unit.storage import test_free_pages

pytestmark = pytest.mark.slow

WALKS: dict[str, tuple[range, Callable[[int], None]]] = {
    "queue": (range(12), lambda seed: test_queue_model.walk(seed, 250, priorities=False)),
    "priorities": (range(12), lambda seed: test_queue_model.walk(seed, 250, priorities=True)),
    "free pages": (range(3), lambda seed: walk_free_pages(seed)),
    "limits": (range(60), lambda seed: test_limits_model.walk(seed, 60)),
}
"""The seeds of each model's walks, and a walk."""


@pytest.mark.parametrize(("name", "model"), [(name, found.model) for name, found in found_by(Model)])
def test_a_mistake_is_found(name: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CATALOGUE[name].plant(monkeypatch.setattr)
    seeds, walk = WALKS[model]
    assert any(fails(walk, seed) for seed in seeds)


def fails(walk: Callable[[int], None], seed: int) -> bool:
    """A walk of this seed finds something."""
    try:
        walk(seed)
    except (AssertionError, lmdb.Error):
        return True
    return False


def walk_free_pages(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        test_free_pages.walk(Path(directory), seed)
