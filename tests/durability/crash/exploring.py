"""Exploring a record for tests: in a process of its own, with a failure that says how to repeat it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from harness.project import ROOT
from leveret.testing.power.c_compiler import compiler
from tests.durability.crash.explorer import Findings, read
from tests.durability.crash.recording.recorder import Recording

SEED = 20261

needs_compiler = pytest.mark.skipif(not compiler(), reason="the recorder is written in C and there is no compiler")


def explored(recording: Recording, *options: str) -> Findings:
    """Check the states that a recording may leave at its decisive instants; with `--first`, until one fails."""
    command = [sys.executable, "-m", "tests.durability.crash", "explore", str(recording.home), "--decisive", *options]
    return read(subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, check=True).stdout)


def told(recording: Recording, findings: Findings) -> list[str]:
    """The failures, each with the command that repeats it."""
    return [
        f"{failure.problem}\n  python -m tests.durability.crash replay {recording.home} {failure.place}"
        for failure in findings.failures
    ]
