"""A broker core, and sessions on it, for the tests of single packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_core import Core
from harness.clients.session_client import Party


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    """A broker without server or clients, whose queues keep four messages in memory."""
    core = Core(tmp_path / "messages")
    yield core
    core.close()


@pytest.fixture
def damaged_core(tmp_path: Path) -> Iterator[Core]:
    """The same, for a test that damages the store behind its queues' backs: what they count is not true then."""
    core = Core(tmp_path / "messages", check_invariants=False)
    yield core
    core.close()


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Party]:
    """A broker with sessions and without sockets. Durable things are on disk when the test says so."""
    core = Core(tmp_path / "messages")
    party = Party(core)
    yield party
    party.registry.check()
    core.close()
