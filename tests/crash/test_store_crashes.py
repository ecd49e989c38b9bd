"""A power failure at any instant of the message store's life loses nothing that was promised.

One workload is recorded; thousands of the disks that a crash may have left are opened by the real recovery code. Then
mistakes are planted in the workload, one at a time, and each must be found: a check that cannot fail proves nothing.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.recorder import PROJECT, Recording, build, compiler, read_events
from tests.crash.states import SECTOR, Chance, Disk, File

SEED = 20261
STATES = 13000
STATES_AT_LEAST = 5000
BATCHES = 190

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the recorder is written in C and there is no compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("recorder"))


def recorded(library: Path, tmp_path: Path, batches: int, *, seed: int = SEED, bug: str = "") -> Recording:
    """Run the workload under the recorder."""
    recording = Recording(library, tmp_path / "data", tmp_path / "log", tmp_path / "marks")
    program = [sys.executable, "-m", "tests.crash.workload_store", str(recording.directory), str(recording.marks)]
    recording.run([*program, str(seed), str(batches), bug])
    return recording


def checked(
    recording: Recording,
    states: int,
    *,
    program: str = "tests.crash.check_store",
    shares: int = 2,
    first: bool = False,
) -> tuple[int, list[str]]:
    """Check the states of a recording; how many there were, and what was wrong."""
    command = [sys.executable, "-m", program, str(recording.directory), str(recording.log)]
    options = ["--states", str(states), "--seed", str(SEED), "--shares", str(shares), *["--first"] * first]
    running = [
        subprocess.Popen([*command, *options, "--share", str(share)], stdout=subprocess.PIPE, cwd=PROJECT)
        for share in range(shares)
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * shares
    found = [json.loads(output) for output in outputs]
    return sum(share["states"] for share in found), [failure for share in found for failure in share["failures"]]


@needs_compiler
@pytest.mark.slow
def test_no_crash_loses_what_was_promised(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = recorded(library, tmp_path, BATCHES)
    states, failures = checked(recording, STATES)
    with capsys.disabled():
        print(f"\n{states} crash states of the message store opened and checked (seed {SEED})")
    assert failures == []
    assert states >= STATES_AT_LEAST


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "symptom"),
    [
        ("confirm before commit", "missing"),
        ("no metasync", "comes again"),
        ("no directory sync", "the store is gone"),
        ("unsafe creation", ""),
        ("settle lost in flight", "not promised"),
    ],
)
def test_a_planted_mistake_is_found(library: Path, tmp_path: Path, bug: str, symptom: str) -> None:
    recording = recorded(library, tmp_path, 20, bug=bug)
    _states, failures = checked(recording, 600, first=True)
    assert failures, f"nobody noticed: {bug} (seed {SEED})"
    assert any(symptom in failure for failure in failures), failures


# The model of a disk


def test_what_was_synced_is_there_and_the_rest_may_be() -> None:
    file = File()
    file.write((0, b"aaaa"), certain=False)
    file.sync()
    file.write((0, b"bb"), certain=False)
    file.write((2, b"cc"), certain=True)
    file.write((4, None), certain=False)
    assert file.uncertain == 2
    assert bytes(file.after(lambda write: ()).data) == b"aacc"
    assert bytes(file.after(lambda write: (write,)).data) == b"bbcc"


def test_tearing_cuts_at_sectors_only() -> None:
    data = bytes(range(256)) * 8
    whole = File()
    whole.write((100, data), certain=True)
    expected = bytes(whole.certain.data)
    for seed in range(200):
        file = File()
        file.write((0, bytes(4096)), certain=True)
        file.write((100, data), certain=False)
        left = bytes(file.after(Chance("some, torn", random.Random(seed), 1).write).data)
        for at in range(0, len(expected), SECTOR):
            sector = left[at : at + SECTOR]
            assert sector.startswith(expected[at : at + SECTOR]) or not any(sector)


@needs_compiler
def test_the_record_rebuilds_what_the_process_wrote(library: Path, tmp_path: Path) -> None:
    """With nothing lost the model's disk is the real one, byte for byte."""
    recording = recorded(library, tmp_path, 30)
    disk = Disk(recording.directory)
    for event in read_events(recording.log):
        disk.follow(event)
    remains = disk.crash(Chance("everything", random.Random(0), disk.uncertain))
    real = {
        str(path.relative_to(recording.directory)): path.read_bytes() if path.is_file() else None
        for path in recording.directory.rglob("*")
        if path.name != "lock.mdb"
    }
    modelled = {path: content and bytes(content.data).ljust(content.size, b"\0") for path, content in remains.items()}
    assert modelled.keys() == real.keys()
    assert [path for path, content in modelled.items() if content != real[path]] == []
