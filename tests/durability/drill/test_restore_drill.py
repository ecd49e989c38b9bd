"""One round of what `make restore-drill` does for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.drill.restore_drill import Drill

pytestmark = pytest.mark.slow


def test_a_broker_that_is_lost_comes_back_from_its_backups(tmp_path: Path) -> None:
    drill = Drill(tmp_path, 7)
    drill.go_through()
    assert drill.messages
