"""Going on and on: what is done is counted over all runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.durability.crash.campaign import Explored, Progress, run
from tests.durability.crash.explorer import Findings
from tests.durability.crash.exploring import needs_compiler


def test_progress_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    progress = Progress.read(file)
    for seed in (1, 3):
        progress.add(Explored(seed, Findings(100, 300, 0, []), None))
    progress.write(file)
    again = Progress.read(file)
    assert (again.states, again.judged) == (200, 600)
    assert list(again.left(iter(range(3)))) == [2, 4, 5], "what was begun and not finished is done again"


@needs_compiler
@pytest.mark.slow
def test_without_time_one_seed_is_explored_and_written_down(tmp_path: Path) -> None:
    assert run(tmp_path, jobs=1, minutes=0, steps=1) == 0
    progress = Progress.read(tmp_path / "progress.json")
    assert progress.seeds_done == [1]
    assert progress.states > 10
