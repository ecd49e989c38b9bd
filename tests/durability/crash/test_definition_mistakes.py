"""Mistakes planted in a real broker, in what becomes of its definitions and of a new data directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.crash.exploring import needs_compiler
from tests.durability.crash.recording.crash_mistakes import assert_found

pytestmark = [needs_compiler, pytest.mark.slow]


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [
        ("declare-ok before commit", r"is None, not \[True"),
        ("delete-ok before commit", r"not \[None\]"),
        ("definitions in normal mode", r"is None, not \[True"),
    ],
)
def test_a_mistake_with_definitions_is_found(tmp_path: Path, planted: str, symptom: str) -> None:
    assert_found(tmp_path / "record", planted, symptom, (6,))


@pytest.mark.parametrize(
    ("planted", "symptom"),
    [("no directory sync", ""), ("unsafe creation", "cannot be read as LMDB|environment of something else")],
)
def test_a_mistake_with_a_new_data_directory_is_found(tmp_path: Path, planted: str, symptom: str) -> None:
    assert_found(tmp_path / "record", planted, symptom, (1,))
