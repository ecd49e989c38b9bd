"""How the tests explore a record: in several processes at once, with a failure that says how to repeat it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.durability.crash.explorer import Findings, makes_certain, read
from tests.durability.crash.recording.recorder import PROJECT, Recording
from tests.durability.crash.subjects import SUBJECTS
from tools.c_compiler import compiler

SEED = 20261
SHARES = 2

needs_compiler = pytest.mark.skipif(not compiler(), reason="the recorder is written in C and there is no compiler")


def explored(recording: Recording) -> Findings:
    """Check the states that a recording may leave at its decisive instants."""
    running = [_exploring(recording, "--shares", SHARES, "--share", n) for n in range(SHARES)]
    shares = [_findings(process) for process in running]
    return Findings(
        sum(share.states for share in shares),
        sum(share.judged for share in shares),
        sum(share.failed for share in shares),
        [failure for share in shares for failure in share.failures],
        sum(share.instants for share in shares),
    )


def first_failure(recording: Recording) -> Findings:
    """Check the same states until one fails."""
    return _findings(_exploring(recording, "--first"))


def _exploring(recording: Recording, *options: str | int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.durability.crash", "explore", recording.home, "--decisive", *options]
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, cwd=PROJECT)


def _findings(process: subprocess.Popen[bytes]) -> Findings:
    output = process.communicate()[0]
    assert process.returncode == 0, "the explorer has failed"
    return read(output)


def assert_covered(recording: Recording, findings: Findings) -> None:
    """A crash was explored before each sync of the record, at its end, and after each event that promises something."""
    events = recording.events()
    syncs = sum(makes_certain(event) for event in events)
    promises = sum(case.promise for case in SUBJECTS[recording.about.subject].cases(events))
    assert findings.instants == syncs + 1 + promises


def told(recording: Recording, findings: Findings) -> list[str]:
    """The failures, each with the command that repeats it."""
    return [
        f"{failure.problem}\n  python -m tests.durability.crash replay {recording.home} {failure.place}"
        for failure in findings.failures
    ]
