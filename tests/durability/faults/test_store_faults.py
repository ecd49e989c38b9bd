"""Both stores, with the Nth write, sync, truncation, renaming, opening and deletion failing, for N from 1 to 50."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.project import ROOT
from tests.durability.faults.store_faults import AT_WORK, NTH_MAX

pytestmark = pytest.mark.slow

NEVER = {"messages": set[str](), "definitions": {"truncate"}}
"""What a store does not do when it starts."""


@pytest.mark.parametrize("store", NEVER)
def test_a_store_outlives_each_failure_of_its_disk(store: str, place: Path, injector: Path) -> None:
    """What was committed is there after a restart, a batch or a change is there whole or not at all."""
    environment = {**os.environ, "LD_PRELOAD": str(injector), "FAULT_DIRECTORY": str(place.resolve())}
    command = [sys.executable, "-m", "tests.durability.faults.store_faults", str(place), store]
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-4000:]
    met: dict[str, int] = dict(map(json.loads, result.stdout.splitlines()))
    for column, count in met.items():
        when, _, kind = column.partition(": ")
        kind = kind.split()[0]
        if when == "work":
            assert kind in AT_WORK
            assert count == NTH_MAX, column
        else:
            assert (count > 0) == (kind not in NEVER[store]), column
    print(f"\n{store}: {sum(met.values())} faults")
