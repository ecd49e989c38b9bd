"""A place on the disk: a sync takes its time there, and the broker decides by that time who writes a batch."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """An empty directory on the disk, which stays if the test fails."""
    directory = Path(tempfile.mkdtemp(prefix="leveret-durability-", dir=os.environ.get("TMPDIR_ON_DISK")))
    failed = request.session.testsfailed
    yield directory
    if request.session.testsfailed == failed:
        shutil.rmtree(directory, ignore_errors=True)
