"""Finding the C compiler of tests and measurements."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leveret.testing.power.c_compiler import compiler


def test_the_systems_own_compiler_is_taken_before_a_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "ziglang").mkdir()
    (tmp_path / "ziglang" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert compiler() == [sys.executable, "-m", "ziglang", "cc"]
    (tmp_path / "gcc").touch(mode=0o755)
    assert compiler() == [str(tmp_path / "gcc")]
