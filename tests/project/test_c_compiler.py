"""Where the C of tests and measurements finds its compiler."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.c_compiler import compiler


@pytest.fixture
def nothing_but(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all of the search path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_the_systems_own_is_taken(nothing_but: Path) -> None:
    (nothing_but / "gcc").touch(mode=0o755)
    assert compiler() == [str(nothing_but / "gcc")]


def test_a_packaged_one_is_taken_where_the_system_has_none(nothing_but: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nothing_but / "ziglang").mkdir()
    (nothing_but / "ziglang" / "__init__.py").touch()
    monkeypatch.syspath_prepend(nothing_but)
    assert compiler() == [sys.executable, "-m", "ziglang", "cc"]
