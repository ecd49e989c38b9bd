"""A power failure at any instant of the message store's life loses nothing that was promised.

One workload is recorded; thousands of the disks that a crash may have left are opened by the real recovery code. Then
mistakes are planted in the workload, one at a time, and each must be found: a check that cannot fail proves nothing.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.durability.crash.exploring import SEED, assert_covered, explored, first_failure, needs_compiler, told
from tests.durability.crash.recording.check_store import Found, judge
from tests.durability.crash.recording.recorded import record_store
from tests.durability.crash.recording.store_marks import Held, Ledger
from tests.durability.crash.states import PAGE, SECTOR, Chance, Content, Disk, File
from tests.planted.mistake import StoreCrashes
from tests.planted.planted_catalogue import found_by

SEEDS = (SEED, SEED + 1, SEED + 2)
CHANGES = {"puts", "settled", "counted", "closed", "purges", "deleted"}


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_crash_loses_what_was_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    recording = record_store(tmp_path / "record", seed)
    findings = explored(recording)
    with capsys.disabled():
        print(
            f"\n{findings.states} crash states of the message store recovered, judged {findings.judged} times", end=""
        )
        print(f" (seed {seed})")
    assert told(recording, findings) == []
    assert_covered(recording, findings)
    marks = [json.loads(event.payload) for event in recording.events() if event.kind == "m"]
    assert {kind for mark in marks for kind in CHANGES if mark.get(kind)} == CHANGES


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize(("name", "crashes"), found_by(StoreCrashes))
def test_a_planted_mistake_is_found(tmp_path: Path, name: str, crashes: StoreCrashes) -> None:
    findings = first_failure(record_store(tmp_path / "record", SEED, 20, planted=name))
    assert findings.failures, f"nobody noticed: {name} (seed {SEED})"
    assert any(crashes.symptom in failure.problem for failure in findings.failures), findings.failures


def test_what_is_not_promised_is_named() -> None:
    """A message that is there although its settlement is on disk, and one that is not although it was put."""
    ledger = Ledger()
    put = {"puts": [(1, 0, 1, 5, 0, True), (1, 0, 2, 5, 0, True)]}
    nothing = dict.fromkeys(("puts", "settled", "counted", "closed", "purges", "deleted"), ())
    for mark in ({**nothing, **put}, {**nothing, "settled": [(1, 0, 1)]}):
        ledger.follow(
            b"\n".join(json.dumps(each).encode() for each in ({"mark": "sealed", **mark}, {"mark": "stored"}))
        )
    settled = {(1, 0, 1): Held("1/0/1....."), (1, 0, 2): Held("1/0/2.....")}
    assert "not promised [(1, 0, 1)]" in judge(ledger, Found(True, 1, settled))[0]
    assert "missing [(1, 0, 2)]" in judge(ledger, Found(True, 1, {}))[0]
    assert judge(ledger, Found(True, 1, {(1, 0, 2): Held("1/0/2.....")})) == []


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


def test_equal_bytes_have_equal_digests() -> None:
    """However they came to be there."""
    choose = random.Random(SEED)
    for _ in range(100):
        content = Content()
        for _ in range(10):
            at = choose.randrange(8 * PAGE)
            written = bytes([choose.randrange(256)]) * choose.randrange(2 * PAGE)
            content.apply((at, written if choose.random() < 0.8 else None))
        same = Content()
        same.apply((0, bytes(content.data)))
        assert (same.data, same.digest) == (content.data, content.digest)
        same.apply((choose.randrange(len(same.data) + 1), b"\x07" * PAGE))
        assert same.digest != content.digest


@needs_compiler
def test_the_record_rebuilds_what_the_process_wrote(tmp_path: Path) -> None:
    """With nothing lost the model's disk is the real one, byte for byte."""
    recording = record_store(tmp_path / "record", SEED, 30)
    disk = Disk(recording.directory)
    for event in recording.events():
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
