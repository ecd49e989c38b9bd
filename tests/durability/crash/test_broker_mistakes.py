"""Mistakes planted in a real broker, in what becomes of its messages: some crash state gives each of them away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.crash.exploring import needs_compiler
from tests.durability.crash.recording.crash_mistakes import assert_found, mistakes
from tests.planted.mistake import BrokerCrashes

pytestmark = [needs_compiler, pytest.mark.slow]


@pytest.mark.parametrize(("name", "crashes"), mistakes(about_definitions=False))
def test_a_mistake_with_messages_is_found(tmp_path: Path, name: str, crashes: BrokerCrashes) -> None:
    assert_found(tmp_path / "record", name, crashes)
