"""Fixtures of the tests of application tests: their environment and a project directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.brokers.program_file import program_file
from harness.project import ROOT


@pytest.fixture
def environment() -> dict[str, str]:
    """For programs that import this checkout, as they would an installation."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory for a project with tests."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The program `leveret` of this checkout."""
    return program_file(tmp_path)
