"""A party of sessions for the tests of the session layer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_core import Core
from harness.clients.session_client import Party


@pytest.fixture
def party(tmp_path: Path) -> Iterator[Party]:
    """A broker with sessions and without sockets. Durable things are on disk when the test says so."""
    core = Core(tmp_path / "messages")
    yield Party(core)
    core.close()
