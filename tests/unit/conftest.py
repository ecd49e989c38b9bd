"""A broker core, and sessions on it, for the tests of single packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_core import Core
from harness.clients.session_client import SessionLayer


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
def sessions(tmp_path: Path) -> Iterator[SessionLayer]:
    """A broker with sessions and without sockets. Durable things are on disk when the test says so."""
    core = Core(tmp_path / "messages")
    layer = SessionLayer(core)
    yield layer
    layer.registry.check()
    core.close()
