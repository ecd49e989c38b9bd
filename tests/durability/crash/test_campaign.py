"""Going on and on: what is done is counted over all runs, and what fails can be repeated exactly."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.waiting import eventually
from tests.durability.crash.campaign import Campaign, Progress, run_seed
from tests.durability.crash.explorer import Findings, Place, replay
from tests.durability.crash.exploring import needs_compiler
from tests.durability.crash.recording.recorder import PROJECT, Recording
from tests.durability.crash.subjects import SUBJECTS

STORE_SEED = 6
STEPS = 8

NONE = Findings(100, 300, 0, [])


def test_progress_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    progress = Progress.read(file)
    begun = [progress.begin() for _ in range(3)]
    assert begun == [1, 2, 3]
    for seed in (1, 3):
        progress.add(seed, NONE, tmp_path)
    progress.write(file)
    again = Progress.read(file)
    again.next_seed = 1
    assert (again.states, again.judged) == (200, 600)
    assert [again.begin(), again.begin()] == [2, 4], "what was begun and not finished is done again"


@needs_compiler
@pytest.mark.slow
def test_a_failure_is_kept_and_repeats_exactly(tmp_path: Path) -> None:
    """The same disk, byte by byte, and the same verdict, in another process and after the first record has gone."""
    findings, kept = run_seed(tmp_path, STORE_SEED, "confirm before commit", STEPS)
    assert kept is not None
    failure = findings.failures[0]
    command = [sys.executable, "-m", "tests.durability.crash", "replay", str(kept), failure.place]
    run = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    place, mark, problem = run.stdout.strip().split(" ", 2)
    assert (place, mark, problem) == failure
    for failure in findings.failures:
        recording = Recording(kept)
        assert replay(recording, SUBJECTS[recording.about.subject], Place.parse(failure.place)) == failure


@needs_compiler
@pytest.mark.slow
def test_a_run_that_was_killed_loses_only_what_was_not_finished(tmp_path: Path) -> None:
    file = tmp_path / "progress.json"
    Progress(next_seed=1, seeds_done=[seed for seed in range(1, 30) if seed % STORE_SEED]).write(file)
    command = [
        sys.executable,
        "-m",
        "tests.durability.crash",
        "run",
        "--jobs",
        "1",
        "--directory",
        str(tmp_path),
        "--steps",
        str(STEPS),
    ]
    running = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        eventually(lambda: STORE_SEED in Progress.read(file).seeds_done, "the first seed to be done", seconds=120)
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)
    before = Progress.read(file)
    assert before.states > 10
    assert Campaign(tmp_path, 1, before.states // 2, STEPS).run() == 0
    after = json.loads(file.read_text())
    assert after["states"] > before.states
    assert after["seeds_done"][: len(before.seeds_done)] == before.seeds_done
    assert len(set(after["seeds_done"])) == len(after["seeds_done"])
    assert after["failures"] == []
