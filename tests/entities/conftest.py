"""A core for the tests of the entities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_core import Core


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    """A broker without server or clients, whose queues keep four messages in memory."""
    core = Core(tmp_path / "messages")
    yield core
    core.close()
