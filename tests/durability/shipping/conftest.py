"""A broker that is shipped to a directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.brokers.broker_process import BrokerProcess


@pytest.fixture
def away(tmp_path: Path) -> Path:
    (tmp_path / "away").mkdir()
    return tmp_path / "away"


@pytest.fixture
def shipped(tmp_path: Path, away: Path) -> Iterator[BrokerProcess]:
    """A broker that is shipped, all that is there each 50 ms."""
    broker = BrokerProcess(tmp_path / "data")
    settings = tmp_path / "leveret.toml"
    settings.write_text(f'[ship]\nto = "{away}"\npiece_seconds = 0.05\n')
    broker.options = ("--config", str(settings))
    broker.start()
    yield broker
    if broker.running:
        broker.kill()
