"""Mistakes planted in a real broker, in what becomes of its messages: some crash state gives each of them away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.crash.exploring import needs_compiler
from tests.durability.crash.recording.crash_mistakes import assert_found

pytestmark = [needs_compiler, pytest.mark.slow]


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [
        ("confirm before commit", "has lost"),
        ("no metasync", "has lost"),
        ("sync after commit", ""),
        ("transaction in two commits", "a transaction is half done"),
        ("settle lost in flight", "count"),
        ("acknowledgement lost", ""),
        ("later boots first", "after another start"),
    ],
)
def test_a_mistake_with_confirms_acknowledgements_or_order_is_found(tmp_path: Path, planted: str, symptom: str) -> None:
    assert_found(tmp_path / "record", planted, symptom)


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [
        ("letter after settlement", "has lost|was to move"),
        ("letter lost while it waits", ""),
        ("release after settlement", "late has lost"),
        ("settlement after release", "late holds messages twice"),
        ("read before sync", "log has "),
    ],
)
def test_a_mistake_with_what_moves_by_itself_is_found(tmp_path: Path, planted: str, symptom: str) -> None:
    assert_found(tmp_path / "record", planted, symptom, (8, 8))
