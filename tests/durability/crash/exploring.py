"""Exploring a record for tests: in a process of its own, with a failure that says how to repeat it."""

from __future__ import annotations

import pytest

from harness.brokers.copied_commands import run_module
from leveret.testing.power.c_compiler import compiler
from tests.durability.crash.explorer import Findings, read
from tests.durability.crash.recording.recorder import Recording

SEED = 20261
RECORDS_MAX = 6
"""Records of a mistake: clients and disk meet at other instants in each, and not in every one where it shows."""

needs_compiler = pytest.mark.skipif(not compiler(), reason="the recorder is written in C and there is no compiler")


def explored(recording: Recording, *options: str) -> Findings:
    """Check the states that a recording may leave at its decisive instants; with `--until`, until one fails so."""
    done = run_module("tests.durability.crash", "explore", str(recording.home), "--decisive", *options)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return read(done.stdout)


def told(recording: Recording, findings: Findings) -> list[str]:
    """The failures, each with the command that repeats it."""
    return [
        f"{failure.problem}\n  python -m tests.durability.crash replay {recording.home} {failure.place}"
        for failure in findings.failures
    ]
