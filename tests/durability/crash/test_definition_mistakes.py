"""Mistakes planted in a real broker, in what becomes of its definitions and of a new data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.crash.exploring import needs_compiler
from tests.durability.crash.recording.crash_mistakes import assert_found, mistakes
from tests.planted.mistake import BrokerCrashes

pytestmark = [needs_compiler, pytest.mark.slow]


@pytest.mark.parametrize(("name", "crashes"), mistakes(about_definitions=True))
def test_a_mistake_with_definitions_is_found(tmp_path: Path, name: str, crashes: BrokerCrashes) -> None:
    assert_found(tmp_path / "record", name, crashes)
