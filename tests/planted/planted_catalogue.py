"""Every mistake by its name, and how a process gets one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from harness.project import ROOT
from tests.planted import clocks, disks, forgotten, hostility, http_readers, settlements, syncs
from tests.planted.mistake import Mistake

CATALOGUE: dict[str, Mistake] = {
    **clocks.MISTAKES,
    **settlements.MISTAKES,
    **forgotten.MISTAKES,
    **syncs.MISTAKES,
    **hostility.MISTAKES,
    **disks.MISTAKES,
    **http_readers.MISTAKES,
}

HERE = Path(__file__).parent


def with_mistake(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which Python plants a mistake at its start. Raises KeyError for one that is not known."""
    assert CATALOGUE[name]
    return {**_with_ours_first(environment), "PLANTED": name}


def with_jumps(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """An environment in which the wall clock jumps on signals: see `jumps.py`."""
    return {**_with_ours_first(environment), "JUMPING": "1"}


def _with_ours_first(environment: Mapping[str, str]) -> dict[str, str]:
    paths = [str(HERE), str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}
