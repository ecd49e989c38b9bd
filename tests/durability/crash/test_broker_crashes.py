"""A power failure at any instant of a whole broker's life loses nothing that its clients were promised.

The real process is recorded, its sockets included, while several clients use everything that leaves a trace on disk,
and while the broker is killed, stopped and started again. The promises are read from what the broker sent. Then
mistakes are planted in it, one at a time, and each must be found: a check that cannot fail proves nothing.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from broker.wire.methods import (
    BasicAck,
    ExchangeDeclareOk,
    QueueBindOk,
    QueueDeclareOk,
    QueueDeleteOk,
    QueuePurgeOk,
    TxCommitOk,
)
from harness.project import ROOT
from leveret.testing.power.disk_states import IGNORED, Chance, Disk
from tests.durability.crash.explorer import cases, makes_certain
from tests.durability.crash.exploring import RECORDS_MAX, SEED, explored, needs_compiler, told
from tests.durability.crash.recording.recorded import record_broker
from tests.durability.crash.recording.recorded_sockets import Conversations
from tests.durability.crash.recording.recorder import Recording
from tests.durability.ledgers.conversation import Answer
from tests.planted.mistake import BrokerCrashes
from tests.planted.planted_catalogue import found_by

pytestmark = [needs_compiler, pytest.mark.slow]

LIVES = (3, 2)
KINDS = ("nothing", "some, torn")
"""Kinds of disks after a crash of the sound broker; `make crash-states` explores all."""
PROMISES = {BasicAck, TxCommitOk, QueueDeclareOk, QueueDeleteOk, QueuePurgeOk, QueueBindOk, ExchangeDeclareOk, Answer}
"""Answers that the record must have: on messages, transactions and definitions."""


def test_no_crash_loses_what_a_client_was_promised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = record_broker(tmp_path / "record", SEED, LIVES)
    expect_rebuilt(recording)
    findings = explored(recording, "--kinds", *KINDS)
    with capsys.disabled():
        print(f"\n{findings.states} crash states recovered, judged {findings.judged} times (seed {SEED})", end="")
    assert told(recording, findings) == []
    events = recording.events()
    promises = {number for number, case in enumerate(cases(events)) if case.promise}
    before = {number - 1 for number, event in enumerate(events) if makes_certain(event)}
    assert findings.instants == len(before | promises) + 1, "before each sync, and at the end"
    conversations = Conversations()
    said = [said for event in events for said in conversations.follow(event)]
    assert {type(each.what) for each in said if not each.by_client} >= PROMISES
    assert any(event.kind == "h" for event in events), "free pages are made holes"
    compactions = [event for event in events if event.kind == "n" and event.path.endswith("/data.mdb")]
    assert len(compactions) >= len(LIVES)


def expect_rebuilt(recording: Recording) -> None:
    """With nothing lost the model's disk is the real one, byte for byte."""
    disk = Disk(recording.directory)
    for event in recording.events():
        disk.follow(event)
    remains = disk.crash(Chance("everything", random.Random(0), disk.uncertain))
    modelled = {path: bytes(content.data).ljust(content.size, b"\0") for path, content in remains.items() if content}
    files = [path for path in (recording.directory / "data").rglob("*") if path.is_file()]
    real = {str(path.relative_to(recording.directory)): path.read_bytes() for path in files}
    assert {
        path: data == modelled.get(path) for path, data in real.items() if not path.endswith(IGNORED)
    } == dict.fromkeys(modelled, True)


@pytest.mark.parametrize(("name", "crashes"), found_by(BrokerCrashes))
def test_a_planted_mistake_is_found(tmp_path: Path, name: str, crashes: BrokerCrashes) -> None:
    for number in range(RECORDS_MAX):
        home = tmp_path / str(number)
        recording = record_broker(home, SEED, crashes.steps, planted=name, offsets=crashes.offsets)
        # A state that is wrong may break another promise, too.
        findings = explored(recording, "--until", crashes.symptom)
        if findings.failures:
            break
    assert findings.failures, f"nobody noticed: {name} (seed {SEED}, {findings.states} states)"
    shown = any(re.search(crashes.symptom, failure.problem) for failure in findings.failures)
    assert shown, findings.failures


def test_a_failure_is_kept_and_repeats_exactly(tmp_path: Path) -> None:
    """The same disk, byte by byte, and the same verdict, in another process and after the first record has gone."""
    recording = record_broker(tmp_path / "record", SEED, (1,), planted="no directory sync", offsets=False)
    failure = explored(recording, "--until", "").failures[0]
    kept = recording.keep(tmp_path / "kept")
    shutil.rmtree(recording.home)
    command = [sys.executable, "-m", "tests.durability.crash", "replay", str(kept.home), failure.place]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1, again.stderr
    assert tuple(again.stdout.strip().split(" ", 2)) == failure
