"""A model is only worth what it finds: some walk must find each mistake. Without one all walks pass, see the models."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from broker.entities.scheduling.invariants import BrokenInvariant
from harness.brokers.broker_core import Core
from harness.clients.session_client import SessionLayer
from storage.storage_errors import StoreError
from tests.models import test_limits_model, test_queue_model, test_quorum_model, test_store_model
from tests.models.__main__ import problem, walk_free_pages
from tests.planted.mistake import Model
from tests.planted.planted_catalogue import CATALOGUE, found_by
from tests.unit.queues import test_queue_background_work as masses

pytestmark = [pytest.mark.slow, pytest.mark.pure_core("mistakes are planted")]

MASSES: dict[str, Callable[[Core, SessionLayer], None]] = {
    "large messages": lambda core, _: masses.test_masses_at_the_head_are_written_in_bounded_batches_and_in_order(
        core, "too many", "classic"
    ),
    "many copies": lambda core, sessions: masses.test_what_goes_to_very_many_queues_goes_some_messages_at_a_time(
        core, sessions, "expired"
    ),
    "many settlements": lambda core, sessions: (
        masses.test_what_one_frame_settles_is_settled_some_at_a_time_before_what_follows(
            core, sessions, masses.ack_all, gone=False
        )
    ),
}
"""Walks over queues in which large numbers of messages end at once."""

WALKS: dict[str, tuple[range, Callable[[int], None]]] = {
    "queue": (range(12), lambda seed: test_queue_model.walk(seed, 250, priorities=False)),
    "priorities": (range(12), lambda seed: test_queue_model.walk(seed, 250, priorities=True)),
    "quorum": (range(6), lambda seed: test_quorum_model.walk(seed, 250, delaying=False)),
    "delayed retry": (range(6), lambda seed: test_quorum_model.walk(seed, 250, delaying=True)),
    "store": (range(6), test_store_model.walk),
    "free pages": (range(3), walk_free_pages),
    **{name: (range(1), lambda _, mass=mass: meet(mass)) for name, mass in MASSES.items()},
    "limits": (range(60), lambda seed: test_limits_model.walk(seed, 60)),
}
"""The seeds of each model's walks, and a walk."""


@pytest.mark.parametrize(("name", "model"), [(name, found.model) for name, found in found_by(Model)])
def test_a_mistake_is_found(name: str, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CATALOGUE[name].plant(monkeypatch.setattr)
    seeds, walk = WALKS[model]
    assert any(fails(walk, seed) for seed in seeds)


def test_a_walk_of_the_campaign_tells_how_it_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problem("limits", 1) == ""
    CATALOGUE["redelivered forgotten"].plant(monkeypatch.setattr)
    told = problem("queue", 1)
    assert "at step " in told
    assert told.endswith("\npython -m tests.models --walk 'queue' --seed 1 --rounds 1")


def fails(walk: Callable[[int], None], seed: int) -> bool:
    """A walk of this seed finds something."""
    try:
        walk(seed)
    except (AssertionError, BrokenInvariant, StoreError, lmdb.Error):
        return True
    return False


def meet(mass: Callable[[Core, SessionLayer], None]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        core = masses.core_in(Path(directory))
        try:
            mass(core, SessionLayer(core))
        finally:
            core.close()
