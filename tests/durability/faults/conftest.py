"""The injector, and a place for data whose disk fails on purpose only: in memory where there is one, for speed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.testing.power.c_compiler import compiler
from leveret.testing.power.preload import library
from tests.durability.faults.injector import SOURCE

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def injector() -> Path:
    """The injector's library."""
    if not compiler():
        pytest.skip("needs a C compiler, for the injector")
    return library(SOURCE)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty directory."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="leveret-faults-") as name:
        yield Path(name)
